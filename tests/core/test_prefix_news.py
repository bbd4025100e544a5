from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.config import Limits
from pairproxy.core.documents import PrefixNews, StateDocument
from pairproxy.core.models import ModelName, NodeId
from pairproxy.core.prefix_news import (
    MOST_AT_ONCE,
    MOST_CHANGED,
    MOST_CHANGES,
    MOST_CONFIDENCE,
    MOST_TOLD,
    STEP_BLOCKS,
    WHOLE_EVERY_S,
    Heard,
    HeardFrom,
    Publication,
    ToldTo,
    bounded,
    mark_of,
    told_positions,
)
from pairproxy.core.prefixes import BlockCache, Size, matched
from tests.core.told import GPU, A, B, C, M, at, document

LONG = tuple(range(1000, 1030))
OTHER = ModelName("other:latest")


def whole(*told: int, version: int = 5) -> PrefixNews:
    """All of an index."""
    return PrefixNews(version, 0, tuple(one ^ mark_of(M) for one in told))


def test_each_eighth_block_is_told_and_where_prompts_end_and_part() -> None:
    """Last first: so that what is told of a prompt is forgotten from its end."""
    assert told_positions(LONG, 0) == [30, 24, 16, 8]
    assert told_positions(LONG, 11) == [30, 24, 16, 11, 8]
    assert told_positions(LONG[:3], 0) == [3]


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.booleans()),
        min_size=1,
        max_size=40,
    )
)
def test_a_reader_knows_what_it_was_told_however_often_it_hears(steps: list[tuple[list[int], bool]]) -> None:
    """It never believes in more than is held, and rounds down by less than a step where prompts go on."""
    cache, publication, heard = BlockCache(Size(60, None)), Publication(), Heard()
    since: int | None = None
    for words, hears in steps:
        prefix = tuple(hash(tuple(words[: n + 1])) & 0xFFFF_FFFF for n in range(len(words)))
        parted_at = matched(prefix, cache.held)
        publication.insert(M, prefix, parted_at, cache.insert(prefix))
        if not hears:
            continue
        news = publication.news(since)
        assert news is None or news.version == publication.version
        if news is not None:
            heard.take_in(news)
            since = news.version
        assert publication.news(since) is None
        assert heard.matched(M, prefix) == len(prefix)
        for cut in range(len(prefix)):
            asked = (*prefix[:cut], 7, 8, 9)
            held = matched(asked, cache.held)
            assert held - STEP_BLOCKS < heard.matched(M, asked) <= held


def test_a_reader_hears_only_what_is_new_to_it() -> None:
    """The whole at first, then changes; one that is far behind, or of another life, hears the whole again."""
    publication = Publication()
    for number in range(20):
        publication.insert(M, (number,), 0, [])
    version = publication.version
    publication.insert(M, (20,), 0, [3, 4])
    mark = mark_of(M)
    assert publication.news(version) == PrefixNews(version + 1, version, (20 ^ mark,), (3 ^ mark, 4 ^ mark))
    publication.drop(M, [20])
    assert publication.news(version) == PrefixNews(version + 2, version, (), (20 ^ mark, 3 ^ mark, 4 ^ mark))
    for since in (None, 0, 99):
        news = publication.news(since)
        assert news is not None
        assert (news.since, len(news.added)) == (0, 18)
    for number in range(MOST_CHANGES + 1):
        publication.insert(M, (100 + number,), 0, [])
    news = publication.news(version)
    assert news is not None
    assert news.since == 0


def test_changes_that_are_more_than_the_whole_are_told_as_the_whole() -> None:
    """Nobody reads more than there is."""
    publication = Publication()
    publication.insert(M, (1,), 0, [])
    publication.insert(M, (2,), 0, [1])
    assert publication.news(1) == PrefixNews(3, 0, (2 ^ mark_of(M),))


def test_what_is_told_has_an_end() -> None:
    """The least recently used is no longer told, from the end of its prompt."""
    publication, heard = Publication(), Heard()
    publication.insert(M, LONG, 0, [])
    for number in range(MOST_TOLD - 2):
        publication.insert(M, (10_000 + number,), 0, [])
    news = publication.news(None)
    assert news is not None
    assert len(news.added) == MOST_TOLD
    heard.take_in(news)
    assert heard.matched(M, LONG) == 16
    assert heard.matched(M, (10_000 + MOST_TOLD - 3,)) == 1


def test_a_prompt_is_held_for_its_model_only() -> None:
    """An engine that has two models has two caches."""
    heard = Heard()
    heard.take_in(whole(1))
    assert (heard.matched(M, (1,)), heard.matched(OTHER, (1,))) == (1, 0)


@pytest.mark.parametrize(
    "news",
    [
        PrefixNews(7, 6, (1,)),
        PrefixNews(7, -1, (1,)),
        whole(*range(MOST_TOLD + 1), version=6),
        PrefixNews(6, 5, tuple(range(10_000, 10_000 + MOST_TOLD))),
        whole(2**64, version=6),
        whole(-1, version=6),
    ],
)
def test_news_that_cannot_be_make_a_reader_forget(news: PrefixNews) -> None:
    """Of another version, of more than is ever told, of what is no hash: then the whole counts again."""
    heard = Heard()
    heard.take_in(whole(1))
    assert heard.matched(M, (1,)) == 1
    heard.take_in(replace(news))
    assert heard.matched(M, (1,)) == 0
    heard.take_in(PrefixNews(6, 5, (1 ^ mark_of(M),)))
    assert heard.matched(M, (1,)) == 0
    heard.take_in(whole(1))
    assert heard.matched(M, (1,)) == 1


def test_what_comes_twice_or_late_is_known_already() -> None:
    """The same document may come again, and an older one after it."""
    heard = Heard()
    heard.take_in(whole(1))
    for news in (
        PrefixNews(6, 5, (2 ^ mark_of(M),)),
        PrefixNews(6, 5, (2 ^ mark_of(M),)),
        whole(3),
        whole(version=0),
    ):
        heard.take_in(news)
        assert heard.matched(M, (1, 2)) == 2


def test_a_stream_tells_the_whole_first_and_again_after_a_while() -> None:
    """In between what changed, from the version that went before."""
    to = ToldTo()
    assert to.versions(7.0) == {}
    to.took(told(A, whole(1)))
    to.took(told(A, None))
    assert to.versions(7.0 + WHOLE_EVERY_S - 0.1) == {GPU: 5}
    assert to.versions(7.0 + WHOLE_EVERY_S) == {}


def test_a_document_has_room_for_so_much_news() -> None:
    """What is too much is told in the next one, if that has room."""
    big = PrefixNews(2, 0, tuple(range(MOST_TOLD)))
    engines = [replace(document(A).engines[0], prefixes=news) for news in (big, big, big, None, whole(1))]
    assert [state.prefixes for state in bounded(engines)] == [big, big, None, None, None]
    assert [state.prefixes for state in bounded(engines[2:])] == [big, None, whole(1)]
    assert Limits().state_document_bytes / 2 > MOST_AT_ONCE * 21


def test_the_changes_of_huge_prompts_are_not_remembered_for_ever() -> None:
    """As many hashes as two whole indexes; who is further behind hears the whole."""
    publication = Publication()
    for number in range(100):
        start = 10_000 * (number + 1)
        publication.insert(M, tuple(range(start, start + 8192)), 0, ())
    assert sum(len(added) + len(gone) for _, added, gone in publication._changes) <= MOST_CHANGED
    last = publication.news(publication.version - 1)
    assert last is not None
    assert last.since == publication.version - 1
    behind = publication.news(1)
    assert behind is not None
    assert behind.since == 0


def told(node: NodeId, news: PrefixNews | None, confidence: float = 1.0) -> StateDocument:
    """A document with this news of its one engine."""
    plain = document(node)
    engine = replace(plain.engines[0], prefixes=news, cache_confidence=confidence)
    return replace(plain, engines=(engine,))


def test_each_place_is_heard_of_for_itself() -> None:
    """Until its node lives anew, is lost, or no longer has the engine."""
    heard = HeardFrom()
    for node in (A, B):
        heard.take_in(told(node, whole(1), 0.5), is_new_life=True)
    heard.take_in(told(A, None, 9.0), is_new_life=False)
    heard.take_in_late(told(A, PrefixNews(6, 5, (2 ^ mark_of(M),))))
    heard.take_in_late(told(C, whole(1)))
    assert heard.matched(at(A), M, (1, 2))[0] == 2
    assert heard.matched(at(C), M, (1, 2))[0] == 0
    assert heard.matched(at(A), M, (1,)) == (1, MOST_CONFIDENCE)
    assert heard.matched(at(B), M, (1,)) == (1, 0.5)
    heard.take_in(told(A, None), is_new_life=True)
    assert heard.matched(at(A), M, (1,)) == (0, 1.0)
    heard.take_in(replace(document(B), engines=()), is_new_life=False)
    assert heard.matched(at(B), M, (1,)) == (0, 1.0)
    heard.take_in(told(B, None), is_new_life=False)
    heard.take_in_late(
        told(B, whole(1))
    )  # a refusal was faster than the document with an engine's first news
    assert heard.matched(at(B), M, (1,)) == (1, 1.0)
    heard.lose(B)
    assert heard.matched(at(B), M, (1,)) == (0, 1.0)

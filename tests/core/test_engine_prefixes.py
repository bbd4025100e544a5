from dataclasses import replace

import pytest

from pairproxy.core.documents import EngineReport
from pairproxy.core.engine_prefixes import MOST_MODELS, UNCERTAIN, EnginePrefixes
from pairproxy.core.models import BLOCK_TOKENS, EngineId, ModelName, Replica, Usage
from pairproxy.core.prefix_news import MOST_CONFIDENCE, mark_of
from tests.core.told import GPU, M, report

PROMPT = tuple(range(100, 120))
OTHER = ModelName("other:latest")


def known(told: EngineReport | None = None) -> EnginePrefixes:
    """One engine that has read PROMPT."""
    prefixes = EnginePrefixes()
    prefixes.report(told or report())
    prefixes.insert(GPU, M, PROMPT)
    return prefixes


def test_an_engine_holds_what_it_has_read_for_its_model() -> None:
    """Another model, another engine, and one that nobody knows, hold nothing."""
    prefixes = known()
    assert prefixes.matched(GPU, M, (*PROMPT, 1, 2)) == len(PROMPT)
    assert prefixes.matched(GPU, OTHER, PROMPT) == 0
    prefixes.insert(EngineId("unknown"), M, PROMPT)
    assert prefixes.matched(EngineId("unknown"), M, PROMPT) == 0
    assert prefixes.news(EngineId("unknown"), None) is None


@pytest.mark.parametrize(
    "changed",
    [
        replace(report(), version="2"),
        replace(report(), kind="openai"),
        replace(report(), replicas=((Replica(M, "sha256:1"), False),)),
        replace(report(), replicas=((Replica(M, "sha256:2"), True),)),
        replace(report(), replicas=((Replica(M, "sha256:1", context_tokens=99), True),)),
    ],
)
def test_an_index_is_void_with_its_model_and_its_engine(changed: EngineReport) -> None:
    """Another version, an unloaded model, other content, another window: nothing is held, readers hear it."""
    prefixes = known()
    prefixes.report(report())
    assert prefixes.matched(GPU, M, PROMPT) == len(PROMPT)
    prefixes.report(changed)
    assert prefixes.matched(GPU, M, PROMPT) == 0
    news = prefixes.news(GPU, None)
    assert news is not None
    assert news.added == ()


def test_an_index_has_the_size_that_was_told_last() -> None:
    """An engine whose slots are known only later keeps more prompts than was thought; of fewer, fewer."""
    prefixes = known(report(1, kind="ollama"))
    prefixes.report(report(2, kind="ollama"))
    prefixes.insert(GPU, M, (1, 2))
    assert [prefixes.matched(GPU, M, one) for one in (PROMPT, (1, 2))] == [len(PROMPT), 2]
    prefixes.report(report(1, kind="ollama"))
    prefixes.insert(GPU, M, (3,))
    assert [prefixes.matched(GPU, M, one) for one in (PROMPT, (1, 2), (3,))] == [0, 0, 1]


def test_an_engine_that_fell_silent_starts_with_nothing() -> None:
    """Whatever it had, it was restarted."""
    prefixes = known()
    before = prefixes.news(GPU, None)
    prefixes.lose(GPU)
    prefixes.lose(EngineId("unknown"))
    prefixes.report(report())
    assert prefixes.matched(GPU, M, PROMPT) == 0
    after = prefixes.news(GPU, None)
    assert before is not None
    assert after is not None
    assert after.version > before.version


def test_a_model_that_is_not_listed_keeps_its_index() -> None:
    """The called engine may serve what it does not list."""
    prefixes = known(replace(report(), replicas=()))
    prefixes.report(replace(report(), replicas=()))
    assert prefixes.matched(GPU, M, PROMPT) == len(PROMPT)


def test_no_more_models_than_the_limit_have_an_index() -> None:
    """The least recently used is forgotten, and told to be."""
    prefixes = known()
    for number in range(MOST_MODELS):
        prefixes.insert(GPU, ModelName(f"m{number}"), PROMPT)
    assert prefixes.matched(GPU, M, PROMPT) == 0
    news = prefixes.news(GPU, None)
    assert news is not None
    assert PROMPT[-1] ^ mark_of(M) not in news.added
    assert PROMPT[-1] ^ mark_of(ModelName("m3")) in news.added


def test_what_does_not_fit_is_not_believed_to_be_there() -> None:
    """A prompt longer than the cache is kept as far as there is room; without a cache nothing is."""
    prefixes = known(replace(report(), cache_tokens=10 * BLOCK_TOKENS))
    assert prefixes.matched(GPU, M, PROMPT) == 10
    assert known(replace(report(), cache_tokens=0)).matched(GPU, M, PROMPT) == 0


def told(cached: int | None, prompt: int | None = 2000) -> Usage:
    """What a reply said of its prompt."""
    return Usage(prompt_tokens=prompt, cached_tokens=cached)


def test_confidence_follows_what_replies_tell() -> None:
    """By parts of the prompt, so that the size of its tokens does not matter; and within bounds."""
    prefixes = known()
    for _ in range(40):
        prefixes.learn(GPU, 10, 1280, told(500))  # half was expected, a quarter was there
    assert prefixes.confidence(GPU) == pytest.approx(0.5, abs=0.01)
    for _ in range(60):
        prefixes.learn(GPU, 10, 1280, told(2000))
    assert prefixes.confidence(GPU) == pytest.approx(MOST_CONFIDENCE, abs=0.01)
    for _ in range(60):
        prefixes.learn(GPU, 10, 1280, told(0))
    assert prefixes.confidence(GPU) == UNCERTAIN
    prefixes.report(replace(report(), version="2"))
    assert prefixes.confidence(GPU) == 1.0


@pytest.mark.parametrize(
    ("blocks", "usage"), [(10, told(None)), (10, told(0, None)), (10, told(0, 0)), (3, told(0))]
)
def test_what_says_nothing_teaches_nothing(blocks: int, usage: Usage) -> None:
    """An engine that does not tell, or a match of a few blocks, leaves the confidence as it is."""
    prefixes = known()
    prefixes.learn(GPU, blocks, 1280, usage)
    prefixes.learn(EngineId("unknown"), 10, 1280, told(0))
    assert prefixes.confidence(GPU) == prefixes.confidence(EngineId("unknown")) == 1.0

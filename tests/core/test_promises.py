"""Who gets a free slot that several origins want."""

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.documents import Promise
from pairproxy.core.models import NodeId
from pairproxy.core.promises import ORIGINS, PASSED_S, PROMISE_S, PromiseBook, Wish, kept_from
from tests.core.told import GPU, B, C

D = NodeId("d")


def test_the_origin_that_went_longest_unserved_comes_first() -> None:
    """Whoever got a slot stands behind those that waited since, however old its oldest request is."""
    book = PromiseBook()
    wishes = [Wish(B, 9, waited_s=60.0), Wish(C, 9, waited_s=3.0)]
    assert book.promise(GPU, 1, wishes, 100.0) == [B]
    book.use(GPU, B, 1.0, 0.0)
    assert book.promise(GPU, 1, wishes, 101.0) == [C]
    book.use(GPU, C, 1.0, 0.0)
    assert book.promise(GPU, 1, wishes, 103.0) == [B]


def test_among_those_who_waited_alike_the_prefix_decides_then_the_work() -> None:
    """Less than a second apart counts as alike; who was given less work has its turn."""
    book = PromiseBook()
    book.served(C, 100.0, 0.0)
    book.served(B, 5000.0, 0.0)
    long, short = Wish(B, 1, waited_s=0.9), Wish(C, 1, waited_s=0.1)
    assert book.promise(GPU, 1, [long, short], 50.0) == [C]
    book.lapse(60.0)
    cached = Wish(B, 1, waited_s=0.1, has_prefix_here=True)
    assert book.promise(GPU, 1, [short, cached], 60.0) == [B]


def test_no_more_is_promised_than_is_free_or_wanted() -> None:
    """Three slots and one wish for two: the third stays open for anybody."""
    book = PromiseBook()
    assert book.promise(GPU, 3, [Wish(B, 2, waited_s=0.0)], 0.0) == [B, B]
    assert book.promise(GPU, 3, [Wish(B, 2, waited_s=0.0)], 0.0) == []
    assert book.promises(GPU, 0.1) == (Promise(B, PROMISE_S - 0.1),) * 2
    assert book.kept_from(GPU, B, 0.1) == []
    assert book.kept_from(GPU, None, 0.1) == book.kept_from(GPU, C, 0.1) == [PROMISE_S - 0.1] * 2


def test_a_promise_lapses_and_the_next_has_its_turn() -> None:
    """Who only waited for the model, and let it lapse, does not want this place for a while."""
    book = PromiseBook()
    waits = [Wish(B, 1, waited_s=9.0, has_asked=False), Wish(C, 1, waited_s=8.0, has_asked=False)]
    assert book.promise(GPU, 1, waits, 0.0) == [B]
    assert book.next_end(0.0) == PROMISE_S
    assert book.promises(GPU, PROMISE_S) == ()
    book.lapse(PROMISE_S)
    assert book.promise(GPU, 1, waits, PROMISE_S) == [C]
    book.lapse(2 * PROMISE_S)
    assert book.promise(GPU, 1, waits, 2 * PROMISE_S) == []
    assert book.promise(GPU, 1, [Wish(B, 1, waited_s=9.0)], 2 * PROMISE_S) == [B], "it asked for this one"
    book.lapse(PROMISE_S + 2 * PASSED_S)
    assert book.promise(GPU, 1, waits, PROMISE_S + 2 * PASSED_S) == [C]


def test_a_book_is_empty_when_nothing_is_promised_and_nothing_was_let_lapse() -> None:
    """Nobody looks into an empty one, so what was let lapse counts until it is forgotten."""
    book = PromiseBook()
    assert book.is_empty
    book.promise(GPU, 1, [Wish(B, 1, waited_s=9.0, has_asked=False)], 0.0)
    assert (book.has_any, book.is_empty) == (True, False)
    book.lapse(PROMISE_S)
    assert (book.has_any, book.is_empty) == (False, False)
    book.lapse(PROMISE_S + PASSED_S)
    assert book.is_empty


def test_a_promise_is_used_once_and_can_be_withdrawn() -> None:
    """By a request of its origin; by an origin that wants nothing any more."""
    book = PromiseBook()
    book.promise(GPU, 3, [Wish(B, 2, waited_s=1.0), Wish(C, 1, waited_s=0.0)], 0.0)
    book.use(GPU, B, 1.0, 0.0)
    book.use(GPU, D, 1.0, 0.0)
    assert [one.origin for one in book.promises(GPU, 0.0)] == [B, C]
    assert book.unserved_s(D, 9.0, 2.0) == 2.0, "it had its turn, without a promise"
    book.withdraw(B, made_before=-0.1)
    assert len(book.promises(GPU, 0.0)) == 2, "what was promised after that moment holds"
    book.withdraw(B, made_before=0.0)
    assert [one.origin for one in book.promises(GPU, 0.0)] == [C]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 2.0)), min_size=8, max_size=80))
def test_nobody_starves_who_goes_on_wanting(steps: list[tuple[int, float]]) -> None:
    """In eight slots each of four origins that want gets one, whatever their ages and their work."""
    book, at = PromiseBook(), 0.0
    names = [NodeId(f"n{number}") for number in range(4)]
    turns: list[NodeId] = []
    for first, passed_s in steps:
        at += 1.0 + passed_s
        wishes = [Wish(name, 9, 1000.0 + at, tokens=10.0**first) for name in names]
        (turn,) = book.promise(GPU, 1, wishes, at)
        book.use(GPU, turn, 1.0, at)
        turns.append(turn)
    for start in range(len(turns) - 7):
        assert set(turns[start : start + 8]) == set(names)


def test_what_is_remembered_of_origins_is_bounded() -> None:
    """A swarm of them costs no memory for ever."""
    book = PromiseBook()
    for number in range(ORIGINS * 2):
        book.served(NodeId(f"n{number}"), 1.0, float(number))
    assert book.unserved_s(NodeId("n0"), 1e9, 1e6) == 1e9
    assert book.unserved_s(NodeId(f"n{2 * ORIGINS - 1}"), 1e9, 2 * ORIGINS) == 1.0


def test_a_reader_counts_what_a_document_keeps_from_it_and_for_how_long() -> None:
    """By its age; its own promises keep nothing from it."""
    told = (Promise(B, 0.25), Promise(C, 0.2), Promise(D, 0.05))
    assert kept_from(B, told, 0.1) == [0.1]
    assert kept_from(D, told, 0.2) == [0.25 - 0.2]

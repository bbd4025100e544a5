import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.avoidance import HOLD_BACK_S, Avoidance
from pairproxy.core.costs import Costs
from pairproxy.core.errors import SlotsTaken
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import AttemptId, NodeId, Rates, RequestId, Usage
from pairproxy.core.nodes import NodeTable
from pairproxy.core.occupancies import EACH_S, FEW, SlotTable
from pairproxy.core.plan import Occupancy
from pairproxy.core.promises import PromiseBook
from pairproxy.core.running import Running, RunningTable
from tests.core.told import FAST, GPU, A, B, C, M, ask, at, document, report

SLOTS = 4 * FEW
BENT = Rates(prefill=250.0, decode=25.0, beta=0.8)


class Known:
    """A node with one engine of many slots, and what runs there."""

    def __init__(self, count: int = 0) -> None:
        self.local, self.nodes, self.running = LocalEngines(A, Costs()), NodeTable(), RunningTable()
        self.avoidance = Avoidance()
        self.local.report(report(SLOTS))
        self.slots = self.table()
        self.count = 0
        for _ in range(count):
            self.send()

    def table(self) -> SlotTable:
        """One that has seen nothing yet."""
        table = SlotTable(self.local, self.nodes, self.running, self.avoidance, PromiseBook())
        self.running.tell(table)
        return table

    def send(self, node: NodeId = A) -> None:
        """One more; each has another prompt and another limit."""
        self.count += 1
        request = ask(f"r{self.count}", prompt=100 * self.count, limit=10 * self.count % 70)
        attempt = AttemptId(RequestId(request.id), 1)
        self.running.add(Running(attempt, request, at(node), FAST, 0.0, 1.0))


def prices(there: Occupancy) -> tuple[float, ...]:
    """What is seen of a place, for a short request and a long one."""
    lasts = [there.lasts_s(before_s, alone_s) for before_s, alone_s in ((0.1, 0.3), (0.5, 9.0))]
    return (there.wait_s, there.in_flight, there.slots, there.reading_s(0.8), there.reading_s(3.0), *lasts)


@given(st.lists(st.integers(0, 9), max_size=80))
def test_what_comes_and_ends_between_two_looks_is_put_in_and_taken_out(steps: list[int]) -> None:
    """So it is seen as by who looks at each of them anew, few or many."""
    known = Known(FEW + 2)
    for step in steps:
        running = [*known.running]
        if step < 6:
            known.send()
        elif running:
            known.running.remove(running[step * 7 % len(running)].attempt)
        seen, fresh = (table.look(0.0)[at(A)] for table in (known.slots, known.table()))
        assert prices(seen) == pytest.approx(prices(fresh))


def test_of_many_what_is_left_is_looked_at_now_and_then() -> None:
    """Until then it is as it was; of few it is always what it is now."""
    few, many = Known(FEW), Known(FEW + 1)
    before = [prices(known.slots.look(0.0)[at(A)]) for known in (few, many)]
    later = EACH_S
    for known in (few, many):
        known.running.count_time(later)
    assert prices(few.slots.look(later)[at(A)]) < before[0]
    assert prices(many.slots.look(later)[at(A)]) == before[1]
    later = EACH_S * (FEW + 1)
    many.running.count_time(later)
    assert prices(many.slots.look(later)[at(A)]) < before[1]


def test_whose_reply_begins_reads_no_more() -> None:
    """That is seen at once, also of many."""
    known = Known(FEW + 1)
    before = known.slots.look(0.0)[at(A)].reading_s(1.0)
    for running in known.running:
        known.running.begin(running, 0.0)
        known.slots.begun(running)
    assert before > 1.0 == known.slots.look(0.0)[at(A)].reading_s(1.0)


def test_what_a_plan_puts_there_is_its_own() -> None:
    """The next plan begins with what runs."""
    known = Known(FEW + 1)
    known.slots.look(0.0)[at(A)].take(0.1, 1.0)
    assert known.slots.look(0.0)[at(A)].in_flight == FEW + 1


def test_many_of_others_at_a_peer_are_as_its_document_says() -> None:
    """A fresh one counts at once; ours there are among them."""
    known = Known()
    known.nodes.report(document(B, slots=SLOTS, frees=(5.0,) * SLOTS), 0.0)
    known.send(B)
    assert known.slots.look(0.0)[at(B)].in_flight == SLOTS + 1
    assert known.slots.look(0.0)[at(B)].wait_s == pytest.approx(5.0, rel=0.1)
    known.nodes.report(document(B, slots=SLOTS, frees=(2.0,) * SLOTS, sequence=2), 0.01)
    assert known.slots.look(0.01)[at(B)].wait_s == pytest.approx(2.0, rel=0.1)


def test_what_is_learned_of_an_engine_counts_at_once() -> None:
    """How much its requests slow each other is asked for by every plan, and looked for after each lesson."""
    known = Known(2)
    before = known.slots.look(0.0)[at(A)].beta
    known.local.measured(GPU, M, Usage(output_tokens=64, decode_s=40.0), 4)
    assert known.slots.look(0.0)[at(A)].beta == known.local.rates(GPU, M).beta != before


def test_what_a_peer_tells_counts_at_once_beside_many_of_ours() -> None:
    """Between two looks at ours, too: who began and ended there, and how one slows the other."""
    known = Known()
    known.nodes.report(document(B, slots=SLOTS, frees=(5.0,) * SLOTS), 0.0)
    for _ in range(FEW + 1):
        known.send(B)
    full = known.slots.look(0.0)[at(B)]
    known.nodes.report(document(B, slots=SLOTS, rates=BENT, sequence=2), EACH_S)
    free = known.slots.look(EACH_S)[at(B)]
    assert (full.in_flight, free.in_flight, free.wait_s) == (SLOTS + FEW + 1, FEW + 1, 0.0)
    assert (full.beta, free.beta) == (FAST.beta, BENT.beta)


def test_every_known_place_is_there_and_no_other() -> None:
    """This node's first; one that says "not now" is busy, however few run there."""
    known = Known()
    known.nodes.report(document(B), 0.0)
    known.avoidance.blame(at(B), SlotsTaken("taken"), 0.0)
    places = known.slots.look(0.0)
    assert [*places] == [at(A), at(B)]
    assert (len(places), at(C) in places, places[at(B)].wait_s) == (2, False, HOLD_BACK_S)


@given(st.integers(0, 2 * FEW), st.integers(1, 2 * FEW), st.integers(0, 3), st.booleans())
def test_free_is_what_has_no_wait(count: int, slots: int, others: int, is_held_back: bool) -> None:
    """Counted, or reckoned from what is left of each: here and at a peer."""
    known = Known()
    known.local.report(report(slots))
    known.nodes.report(document(B, slots=slots, frees=(5.0,) * others), 0.0)
    for number in range(count):
        known.send(A if number % 2 else B)
    if is_held_back:
        known.avoidance.blame(at(B), SlotsTaken("x"), 0.0)
    for place in known.slots.places():
        for now in (0.0, HOLD_BACK_S):
            assert known.slots.is_free(place, now) == (known.slots.look(now)[place].wait_s <= 0.0)

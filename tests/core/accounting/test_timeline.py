from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.accounting.records import AttemptRecord, RequestRecord
from pairproxy.core.accounting.services import OVERLAP_S, peak
from pairproxy.core.accounting.timeline import Bar, Lane, Timeline, lay_out
from pairproxy.core.experiments.rigs import equal
from pairproxy.core.models import NodeId, Outcome, Place, RequestId, Usage
from pairproxy.core.simulator import simulate
from pairproxy.core.workloads.bursts import burst
from tests.core.accounting.conversation import ENGINE, A, B, at, served


def laid(*records: RequestRecord, bound_s: float | None = None) -> Timeline:
    """Of a run that began at 100 s."""
    return lay_out(records, 100.0, bound_s)


def with_attempts(record: RequestRecord, *attempts: AttemptRecord, outcome: Outcome) -> RequestRecord:
    """The same request with other tries."""
    return replace(record, attempts=attempts, outcome=outcome)


def test_a_request_is_a_bar_that_waits_reads_and_writes() -> None:
    """Times count from the run's start; the bound and the end are the picture's own lines."""
    timeline = laid(served("r", 101.0, 103.0, 110.0), bound_s=8.5)
    assert timeline == Timeline(
        makespan_s=10.0,
        lower_bound_s=8.5,
        lanes=(Lane(A, ENGINE, 1),),
        bars=(Bar(RequestId("r"), 1, 0, 1, timeline.bars[0].model, 1.0, 3.0, 3.5, 10.0, "done", 0.0, 100),),
        unplaced=(),
        waves=1,
    )


def test_what_overlaps_takes_lanes_of_its_own_and_the_lowest_free_one_is_used_again() -> None:
    """Two at once at A, one at B, then one at A when its first lane is free, and one when both are."""
    timeline = laid(
        served("u", 100.0, 100.0, 104.0, A),
        served("v", 100.0, 100.0, 109.0, A),
        served("w", 100.0, 100.0, 103.0, B),
        served("x", 100.0, 104.0, 108.0, A),
        served("y", 100.0, 110.0, 112.0, A),
    )
    assert timeline.lanes == (Lane(A, ENGINE, 1), Lane(A, ENGINE, 2), Lane(B, ENGINE, 1))
    assert [(bar.request, bar.lane, bar.wave) for bar in timeline.bars] == [
        ("u", 0, 1), ("v", 1, 1), ("w", 2, 1), ("x", 0, 2), ("y", 0, 3),
    ]  # fmt: skip
    assert timeline.waves == 3


def test_an_end_that_is_heard_late_opens_no_lane() -> None:
    """A slot is in use again up to OVERLAP_S before its origin hears of the last end; more is two slots."""
    late = laid(served("u", 100.0, 100.0, 105.0), served("v", 100.0, 105.0 - 0.9 * OVERLAP_S, 109.0))
    assert (len(late.lanes), late.waves) == (1, 2)
    both = laid(served("u", 100.0, 100.0, 105.0), served("v", 100.0, 105.0 - 1.1 * OVERLAP_S, 109.0))
    assert (len(both.lanes), both.waves) == (2, 1)


def test_an_attempt_that_was_turned_away_opens_no_lane() -> None:
    """A peer's one slot was taken: the refusal of a few milliseconds is no second slot."""
    turned_away = AttemptRecord(1, at(A), "finishes first", None, 102.0, None, 102.004, "SlotsTaken")
    second = AttemptRecord(2, at(A), "finishes first", None, 105.0, 106.0, 109.0, "done")
    other = with_attempts(served("r", 102.0, 0.0, 109.0), turned_away, second, outcome=Outcome.DONE)
    timeline = laid(served("u", 100.0, 100.0, 105.0), other)
    assert timeline.lanes == (Lane(A, ENGINE, 1),)
    assert [(bar.request, bar.end) for bar in timeline.bars] == [
        ("u", "done"),
        ("r", "SlotsTaken"),
        ("r", "done"),
    ]


def test_each_attempt_waits_from_the_end_of_the_one_before() -> None:
    """A request that failed on A and went to B is two bars; what ended the first stands in it."""
    first = AttemptRecord(1, at(A), "finishes first", None, 101.0, None, 103.0, "Unreachable")
    second = AttemptRecord(2, at(B), "finishes first", None, 104.0, 105.0, 109.0, "done")
    timeline = laid(
        with_attempts(served("r", 100.0, 0.0, 109.0), first, second, outcome=Outcome.DONE),
    )
    assert [(bar.attempt, bar.waiting_s, bar.dispatched_s, bar.end) for bar in timeline.bars] == [
        (1, 0.0, 1.0, "Unreachable"),
        (2, 3.0, 4.0, "done"),
    ]  # fmt: skip


def test_a_rescue_that_overlaps_its_straggler_does_not_wait_before_its_time() -> None:
    """A second attempt that began before the first one ended has no wait at all."""
    first = AttemptRecord(1, at(A), "finishes first", None, 100.0, None, 108.0, "Moved")
    second = AttemptRecord(2, at(B), "rescued", None, 105.0, 106.0, 109.0, "done")
    timeline = laid(with_attempts(served("r", 100.0, 0.0, 109.0), first, second, outcome=Outcome.DONE))
    assert (timeline.bars[1].waiting_s, timeline.bars[1].dispatched_s) == (5.0, 5.0)


def test_a_request_that_found_no_node_is_told_beside_the_lanes() -> None:
    """It waited and was refused: no bar, but not forgotten."""
    refused = with_attempts(served("r", 101.0, 0.0, 107.0), outcome=Outcome.REFUSED)
    timeline = laid(served("u", 100.0, 100.0, 105.0), refused)
    assert [(one.request, one.waiting_s, one.ended_s, one.outcome) for one in timeline.unplaced] == [
        ("r", 1.0, 7.0, "refused")
    ]
    assert (len(timeline.bars), timeline.makespan_s) == (1, 7.0)


@pytest.mark.parametrize(("told", "shown"), [(None, 0.0), (0.2, 0.2), (99.0, 0.5)])
def test_loading_is_a_part_of_the_bar_before_its_first_byte(told: float | None, shown: float) -> None:
    """As the engine tells it, and never more than the time until the first byte."""
    record = served("r", 100.0, 100.0, 105.0)
    timeline = laid(replace(record, usage=Usage(10, None, 100, load_s=told)))
    assert timeline.bars[0].load_s == shown


@pytest.mark.parametrize(("told", "first"), [(None, None), (3.0, 2.0), (99.0, 0.0)])
def test_a_reply_in_one_piece_is_not_all_reading(told: float | None, first: float | None) -> None:
    """Its first byte is its end, so only its engine knows when it began to write."""
    record = served("r", 100.0, 100.0, 105.0)
    one_piece = replace(record, is_streaming=False, usage=Usage(10, None, 100, decode_s=told))
    assert laid(one_piece).bars[0].first_byte_s == first


@settings(max_examples=50)
@given(st.integers(0, 10_000))
def test_no_bar_is_lost_and_a_lane_holds_one_at_a_time(seed: int) -> None:
    """Of any schedule: every attempt is one bar, those of a lane follow each other, no lane is too many."""
    random = Random(seed)
    records = [
        served(str(number), 100.0, start, start + random.uniform(0.0, 20.0), random.choice([A, B]))
        for number in range(random.randint(1, 40))
        for start in [random.uniform(100.0, 150.0)]
    ]
    timeline = laid(*records)
    assert sorted(bar.request for bar in timeline.bars) == sorted(record.id for record in records)
    for number in range(len(timeline.lanes)):
        bars = [bar for bar in timeline.bars if bar.lane == number]
        assert [bar.wave for bar in bars] == list(range(1, len(bars) + 1))
        long = [bar for bar in bars if bar.ended_s - bar.dispatched_s > OVERLAP_S]
        overlaps = [before.ended_s - after.dispatched_s for before, after in pairwise(long)]
        assert max(overlaps, default=0.0) <= OVERLAP_S + 1e-9
    for node in (A, B):
        spans = [
            (record.final.dispatched_at, record.final.ended_at)
            for record in records
            if record.final and record.place == Place(node, ENGINE)
        ]
        assert sum(lane.node == node for lane in timeline.lanes) == max(peak(spans), min(len(spans), 1))


def test_a_simulated_burst_fills_the_slots_there_are() -> None:
    """No more lanes than slots, whatever the network's delays do to the ends."""
    result = simulate(equal(3, 4), burst(Random(4), 64, [NodeId("node0")]))
    timeline = lay_out(result.records, min(record.arrived_at for record in result.records), None)
    lanes = Counter(lane.node for lane in timeline.lanes)
    assert lanes == {NodeId(f"node{number}"): 4 for number in range(3)}
    assert timeline.makespan_s == pytest.approx(result.makespan_s)

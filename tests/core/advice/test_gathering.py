from dataclasses import replace

import pytest

from pairproxy.core.accounting.runs import Run
from pairproxy.core.advice.gathering import MOST_REQUESTS, Known, gather, speed_against
from pairproxy.core.models import ModelName, Outcome, Rates, RequestId, Usage
from tests.core.advice.looking import USUAL, A, B, burst, chain, happens, look, node, prefixes


def test_the_pieces_of_a_request_add_up() -> None:
    """Waiting, reading and writing are its time; alone they are what the rates say."""
    timing = look([node("a")], burst(4, prompt=1000, output=101)).timing
    assert timing.ttft_s is not None
    assert timing.read_s is not None
    assert timing.tpot_s is not None
    assert timing.ttft_s == pytest.approx(timing.queue_s + timing.read_s, rel=0.01)
    assert timing.latency_s == pytest.approx(timing.ttft_s + 100 * timing.tpot_s, rel=0.02)
    assert timing.alone_read_s == timing.best_read_s == pytest.approx(0.5)
    assert timing.alone_tpot_s == pytest.approx(1 / USUAL.decode)
    assert timing.company == pytest.approx(1.0)


def test_company_is_counted_by_the_second() -> None:
    """Four that write at once, from the same moment to nearly the same."""
    timing = look([node("a", 4)], burst(4, prompt=10)).timing
    assert timing.company == pytest.approx(4.0, abs=0.2)
    assert timing.tpot_s is not None
    assert timing.alone_tpot_s is not None
    assert timing.tpot_s == pytest.approx(timing.alone_tpot_s / USUAL.share(4), rel=0.05)


def test_the_best_reading_is_that_of_the_fastest_node() -> None:
    """Also where it was not used."""
    timing = look([node("a"), node("b", 1, Rates(8000.0, 1.0, 0.15))], chain(2, prompt=800)).timing
    assert timing.best_read_s == pytest.approx(0.1)


def test_hits_are_those_reached_and_those_possible() -> None:
    """Two kinds of beginnings, three times each: four of six need not be read."""
    known = look([node("a")], prefixes([0, 1, 0, 1, 0, 1], blocks=50)).prefixes
    assert known.reached is not None
    assert known.reached == pytest.approx(4 / 6, abs=0.02)
    assert known.possible == pytest.approx(4 / 6, abs=0.02)


def test_nodes_are_told_with_what_they_did() -> None:
    """Two alike share a burst; busy is the part of their slots' time."""
    nodes = look([node("a"), node("b")], burst(8)).nodes
    assert {one.node: one.requests for one in nodes} == {A: 4, B: 4}
    assert all(one.busy > 0.9 for one in nodes)
    assert [one.name for one in nodes] == ["node a", "node b"]


def test_a_long_run_is_cut() -> None:
    """Its first requests speak for it."""
    (record,) = happens([node("a")], burst(1), "fastest-finish").records
    assert record.final is not None
    place, many = record.final.place, []
    for index in range(MOST_REQUESTS + 5):
        later = replace(
            record.final,
            dispatched_at=record.final.dispatched_at + 10.0 * index,
            first_byte_at=(record.final.first_byte_at or 0.0) + 10.0 * index,
            ended_at=record.final.ended_at + 10.0 * index,
        )
        many.append(
            replace(
                record,
                id=RequestId(f"r{index}"),
                arrived_at=record.arrived_at + 10.0 * index,
                ended_at=record.ended_at + 10.0 * index,
                attempts=(later,),
            )
        )
    known = Known(A, "fastest-finish", {place: (1, {record.model: USUAL})}, {}, {}, {})
    assert gather(Run("job", None, tuple(many)), known).requests == MOST_REQUESTS


def test_what_did_not_end_well_is_left_out() -> None:
    """A client that left says nothing of speeds."""
    records = happens([node("a")], burst(3), "fastest-finish").records
    left = replace(records[0], outcome=Outcome.CANCELLED)
    place = records[1].final.place  # type: ignore[union-attr]
    known = Known(A, "fastest-finish", {place: (1, {records[1].model: USUAL})}, {}, {}, {})
    evidence = gather(Run("job", None, (left, *records[1:])), known)
    assert evidence.requests == 2
    none = gather(Run("job", None, (left,)), known)
    assert none.requests == 0
    assert none.recording.requests == ()


def test_what_passed_outside_of_the_engine_is_known_where_it_tells_its_time() -> None:
    """Half a second that it knows nothing of."""
    records = happens([node("a")], chain(2), "fastest-finish").records
    timed = []
    for record in records:
        assert record.final is not None
        took_s = record.final.ended_at - record.final.dispatched_at
        usage = Usage(prompt_tokens=200, output_tokens=50, prefill_s=0.1, decode_s=took_s - 0.6)
        timed.append(replace(record, usage=usage))
    place = records[0].final.place  # type: ignore[union-attr]
    known = Known(A, "fastest-finish", {place: (1, {records[0].model: USUAL})}, {}, {}, {})
    assert gather(Run("job", None, tuple(timed)), known).service.transport_s == pytest.approx(0.5)
    assert gather(Run("job", None, records), known).service.transport_s is None


def test_a_node_is_compared_by_what_both_have() -> None:
    """Half as fast with one model, as fast with another: three quarters."""
    mine = {ModelName("x"): Rates(1, 40.0, 0), ModelName("y"): Rates(1, 10.0, 0)}
    theirs = {ModelName("x"): Rates(1, 20.0, 0), ModelName("y"): Rates(1, 10.0, 0)}
    assert speed_against(mine, theirs) == 0.75
    assert speed_against(mine, {ModelName("z"): Rates(1, 1.0, 0)}) is None

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.accounting.alone import T1
from pairproxy.core.accounting.report import RunReport, report_run
from pairproxy.core.accounting.runs import Run, group_runs
from pairproxy.core.accounting.services import Tally
from pairproxy.core.errors import QueueFull
from pairproxy.core.models import ModelName, NodeId, Outcome, Rates
from tests.core.accounting.conversation import A, B, C, Told, at, dispatch, refuse, served
from tests.core.accounting.schedules import Services, list_schedule, workloads

WAVES = (("u", 0.0, A), ("v", 0.0, B), ("w", 10.0, A), ("x", 10.0, B), ("y", 20.0, A))


def five_on_two(last_s: float = 10.0) -> Run:
    """Five requests of ten seconds that arrive at once, in three waves on two nodes."""
    ends = {"y": 20.0 + last_s}
    (run,) = group_runs(
        [served(name, 0.0, start, ends.get(name, start + 10.0), node) for name, start, node in WAVES]
    )
    return run


def test_five_requests_on_two_nodes() -> None:
    """The report of the worked example: speedup 5/3, at both bounds, efficiency 1."""
    report = report_run(five_on_two(), {A: 1, B: 1}, T1(50.0, "measured", A))
    assert (report.run, report.requests, report.outcomes) == ("u", 5, {"done": 5})
    assert (report.makespan_s, report.lower_bound_s, report.slots) == (30.0, 30.0, 2)
    assert report.speedup == report.bound_waves == report.bound_provable == pytest.approx(5 / 3)
    assert report.efficiency == 1.0
    assert (report.queue_p50_s, report.queue_p90_s) == (10.0, 20.0)
    assert (report.ttft_p50_s, report.ttft_p90_s) == (10.5, 20.5)
    assert report.per_node == {
        A: Tally(requests=3, prompt_tokens=30, output_tokens=300, busy_s=30.0, share=0.6),
        B: Tally(requests=2, prompt_tokens=20, output_tokens=200, busy_s=20.0, share=0.4),
    }
    assert report.notes == ("Fewer than 8 requests: an anecdote, not a statistic.",)


def test_without_a_time_alone_there_is_no_speedup() -> None:
    """Efficiency needs no T1, speedup does, and the report says so."""
    report = report_run(five_on_two(), {A: 1, B: 1}, None)
    assert (report.speedup, report.bound_provable, report.t1) == (None, None, None)
    assert report.efficiency == 1.0
    assert any("no speedup is claimed" in note for note in report.notes)


def test_a_modelled_time_alone_says_that_it_is() -> None:
    """Which kind of T1 it was, and how wrong the model is, stands in the notes."""
    notes = report_run(five_on_two(), {A: 1, B: 1}, T1(50.0, "modelled", A, model_error=0.07)).notes
    assert (
        "The time of one node alone is modelled, not measured (off by 7% on the run as it happened)." in notes
    )
    assert "The time of one node alone is modelled, not measured." in (
        report_run(five_on_two(), {A: 1, B: 1}, T1(50.0, "modelled", A)).notes
    )


@pytest.mark.parametrize(("error", "is_claimed"), [(None, True), (0.25, True), (0.26, False), (1.13, False)])
def test_a_model_that_is_off_by_more_than_a_quarter_claims_nothing(
    error: float | None, is_claimed: bool
) -> None:
    """The report says how far off it is, and its bound and efficiency do not lean on it."""
    alone = T1(20.0, "modelled", A, model_error=error)
    report = report_run(five_on_two(), {A: 1, B: 1}, alone)
    assert report.t1 == alone
    assert (report.speedup is not None, report.bound_provable is not None) == (is_claimed, is_claimed)
    assert report.lower_bound_s == (20.0 if is_claimed else 30.0)
    assert report.efficiency is not None
    assert 0.0 < report.efficiency <= 1.0
    said = f"The model of one node alone is off by {error or 0:.0%} on the run as it happened, so no speedup"
    assert any(note.startswith(said) for note in report.notes) is not is_claimed


KNOWN = {at(node): (1, {ModelName("m"): Rates(1000.0, 10.0, 0.0)}) for node in (A, B)}


def test_known_speeds_say_where_the_time_went() -> None:
    """Five requests of ten seconds on two nodes: the bound is 30 s, and the run lost what it took longer."""
    report = report_run(five_on_two(last_s=14.0), {A: 1, B: 1}, T1(54.0, "measured", A), places=KNOWN)
    assert report.lower_bound_s is not None
    assert report.lower_bound_s == pytest.approx(29.97, abs=0.1)
    assert report.losses is not None
    assert report.losses.total_s == pytest.approx(report.makespan_s - report.lower_bound_s)
    assert report.bound_capacity == pytest.approx(2.0)
    assert report.gained == pytest.approx((54 / 34 - 1) / (54 / report.lower_bound_s - 1))


def test_this_machine_alone_is_told_beside_the_best_one() -> None:
    """The same requests on the slower one: more is gained, and it is not called the speedup."""
    slow = T1(90.0, "measured", B)
    report = report_run(five_on_two(), {A: 1, B: 1}, T1(50.0, "measured", A), t1_local=slow)
    assert report.speedup == pytest.approx(5 / 3)
    assert report.speedup_local == pytest.approx(3.0)
    assert report.t1_local == slow


def test_chains_are_told_with_their_tools() -> None:
    """Two chains of three steps with two seconds of a tool between them: the path cannot be shortened."""
    steps = [
        served(f"{name}{step}", 7.0 * step, 7.0 * step, 7.0 * step + 5.0, node,
               prefix=tuple(name * 100 + block for block in range(step + 1)), prompt=64 * (step + 1) + 1,
               tokens=40, run="job")
        for name, node in ((1, A), (2, B)) for step in range(3)
    ]  # fmt: skip
    (run,) = group_runs(steps)
    report = report_run(run, {A: 1, B: 1}, None, places=KNOWN)
    assert (report.chains, report.chain_steps, report.longest_chain, report.tool_s) == (2, 6, 3, 8.0)
    assert report.span_hi_s == pytest.approx(19.0)
    assert report.span_lo_s is not None
    assert report.lower_bound_s is not None
    assert report.span_lo_s == pytest.approx(3 * 4.0 + 2 * 2.0, abs=0.3)
    assert report.span_lo_s <= report.lower_bound_s <= report.makespan_s


def test_a_run_that_beats_its_speeds_is_its_own_bound() -> None:
    """Speeds that were believed too low do not make an efficiency above one."""
    slow = {place: (1, {ModelName("m"): Rates(1000.0, 1.0, 0.0)}) for place in KNOWN}
    report = report_run(five_on_two(), {A: 1, B: 1}, None, places=slow)
    assert report.efficiency is not None
    assert report.efficiency <= 1.0
    assert report.losses is not None
    assert report.losses.total_s >= 0.0


def test_a_single_request_has_nothing_to_share() -> None:
    """However many nodes there are, and whatever one of them alone would have taken."""
    (run,) = group_runs([served("u", 0.0, 0.0, 5.0)])
    report = report_run(run, {A: 1, B: 1}, T1(10.0, "measured", B))
    assert (report.speedup, report.bound_provable) == (None, None)
    assert report.notes[0] == "A single request: there was nothing to share."


def test_beating_the_waves_bound_is_explained() -> None:
    """A speedup above N / ceil(N / slots) comes from unequal pieces, and the efficiency stays below 1."""
    report = report_run(five_on_two(last_s=4.0), {A: 1, B: 1}, T1(44.0, "measured", A))
    assert report.speedup is not None
    assert report.speedup > report.bound_waves
    assert report.efficiency is not None
    assert report.efficiency <= 1.0
    assert any("the longest took 10.0 s, the shortest 4.0 s" in note for note in report.notes)


def test_being_slower_than_one_node_is_said() -> None:
    """The run that lost to its own best node does not hide it, and that node bounds the makespan."""
    report = report_run(five_on_two(), {A: 1, B: 1}, T1(24.0, "measured", B))
    assert report.speedup == pytest.approx(0.8)
    assert report.lower_bound_s == 24.0
    assert report.efficiency == pytest.approx(0.8)
    assert "One node alone would have been faster than all of them together." in report.notes


def test_requests_one_by_one_say_that_more_machines_cannot_help() -> None:
    """Each arrival after the last end: the bound is the run itself."""
    (run,) = group_runs([served(f"r{step}", 4.0 * step, 4.0 * step, 4.0 * step + 3.0) for step in range(9)])
    report = report_run(run, {A: 1, B: 1}, T1(35.0, "measured", A))
    assert report.efficiency == pytest.approx(1.0)
    said = "Each request came when the one before had ended: so more machines cannot help."
    assert said in report.notes
    assert not any("anecdote" in note for note in report.notes)
    assert report.per_node[B] == Tally()


def test_a_single_node_has_nothing_to_balance() -> None:
    """With one node able to serve, the report says so instead of praising the distribution."""
    (run,) = group_runs([served("u", 0.0, 0.0, 5.0), served("v", 0.0, 5.0, 9.0)])
    report = report_run(run, {A: 1}, T1(20.0, "modelled", A))
    assert report.notes[0] == "Only one node had a replica of this model: there was nothing to balance."
    assert not any("speedup" in note or "modelled" in note for note in report.notes)
    assert (report.bound_waves, report.efficiency) == (1.0, 1.0)
    assert (report.speedup, report.bound_provable, report.t1) == (None, None, None)


def test_an_idle_node_counts_in_the_bound() -> None:
    """A node that could have helped and did not lowers the bound, as if it were as fast as the best."""
    (run,) = group_runs([served("u", 0.0, 0.0, 5.0), served("v", 0.0, 5.0, 10.0)])
    report = report_run(run, {A: 1, B: 1}, None)
    assert (report.lower_bound_s, report.efficiency) == (5.0, 0.5)


def test_slots_that_were_seen_in_use_count() -> None:
    """A node that ran two at once had two slots, whatever it publishes now."""
    (run,) = group_runs([served("u", 0.0, 0.0, 5.0), served("v", 0.0, 0.0, 5.0)])
    report = report_run(run, {A: 1}, None)
    assert (report.slots, report.bound_waves, report.efficiency) == (2, 2.0, 1.0)


def test_requests_that_did_not_end_well_are_counted_and_said() -> None:
    """A refused and a failed request are in the outcomes, and the times are called incomplete."""
    told = Told()
    told.arrived(0.0, "served", dispatch("served", A))
    told.arrived(0.0, "refused", refuse("refused", QueueFull("Full.")))
    told.finished(4.0, "served", outcome=Outcome.TRUNCATED)
    (run,) = group_runs(told.ledger.records)
    report = report_run(run, {A: 1}, None)
    assert report.outcomes == {"truncated": 1, "refused": 1}
    assert report.per_node[A].requests == 1
    assert any(note.startswith("2 of 2 requests did not end well") for note in report.notes)


def test_a_run_in_which_nothing_was_served() -> None:
    """No bound, no efficiency and no percentile of first bytes; nothing breaks."""
    told = Told()
    told.arrived(0.0, "r", refuse("r", QueueFull("Full.")))
    report = report_run(group_runs(told.ledger.records)[0], {A: 1}, T1(1.0, "measured", A))
    assert (report.efficiency, report.lower_bound_s, report.ttft_p50_s, report.speedup) == (
        None,
        None,
        None,
        None,
    )
    assert report_run(group_runs(told.ledger.records)[0], {}, None).slots == 1


def test_it_is_json() -> None:
    """A report survives JSON, field by field, and its durations say their unit."""
    report = report_run(five_on_two(), {A: 1, B: 1, C: 2}, T1(50.0, "measured", A))
    encoded = msgspec.json.encode(report)
    assert msgspec.json.decode(encoded, type=RunReport) == report
    assert {"makespan_s", "queue_p50_s", "ttft_p90_s", "lower_bound_s"} <= msgspec.json.decode(encoded).keys()


@given(workloads(most_requests=12, most_slots=3), st.integers(), st.booleans())
@settings(deadline=None)
def test_no_run_beats_its_bound(
    workload: tuple[Services, dict[NodeId, int]], seed: int, with_tokens: bool
) -> None:
    """Whatever the schedule, the makespan is at least the lower bound, so the efficiency is in (0, 1]."""
    services, slots = workload
    random = Random(seed)
    records = [
        served(
            f"r{index}",
            service.start_s * random.choice([0.0, 0.0, 1.0]),
            service.start_s,
            service.end_s,
            service.place.node,
            run="job",
            tokens=service.output_tokens if with_tokens else None,
        )
        for index, service in enumerate(list_schedule(services, slots, random))
    ]
    (run,) = group_runs(records)
    report = report_run(run, slots, T1(run.makespan_s * 1.5, "measured", A))
    assert report.lower_bound_s is not None
    assert report.lower_bound_s <= run.makespan_s * (1 + 1e-9)
    assert report.efficiency is not None
    assert 0.0 < report.efficiency <= 1.0
    can_share = len(records) > 1 and len(slots) > 1
    assert (report.speedup is not None, report.bound_provable is not None) == (can_share, can_share)
    assert (report.speedup or 0.0) <= (report.bound_provable or 0.0) * (1 + 1e-9)

from dataclasses import replace

from pairproxy.core.accounting.judging import COMPANY, DECISIVE, WORTH_SAYING
from pairproxy.core.accounting.verdict import shown
from pairproxy.core.models import Outcome, Rates
from pairproxy.core.workload import SimNode
from tests.core.accounting.conversation import A, B, served
from tests.core.accounting.judged import RATES, judged, judged_records, nodes, piece


def test_a_run_at_its_bound_is_about_the_bound_and_another_about_its_loss() -> None:
    """A loss is the limit from DECISIVE of the makespan on."""
    near = judged(nodes("ab"), [piece() for _ in range(4)])
    assert near.report.losses is not None
    assert near.report.losses.largest[1] < DECISIVE * near.report.makespan_s
    assert near.verdict.loss is None
    far = judged(nodes("abc"), [*(piece() for _ in range(9)), piece(300)])
    assert far.report.losses is not None
    assert far.report.losses.largest[1] >= DECISIVE * far.report.makespan_s
    assert far.verdict.loss == "tail_idle_s"


def test_a_smaller_loss_is_told_after_what_made_the_bound() -> None:
    """Slots that slow each other a little: the work is the limit, and what it cost stands behind it."""
    run = judged(nodes("ab", 2, Rates(4000.0, 40.0, 0.02)), [piece() for _ in range(60)])
    assert run.report.losses is not None
    _, seconds = run.report.losses.largest
    assert WORTH_SAYING * run.report.makespan_s <= seconds < DECISIVE * run.report.makespan_s
    assert (run.verdict.cause, run.verdict.loss) == ("slots", None)
    assert run.verdict.limited_by.endswith(f"waiting; beyond that, {COMPANY} {shown(seconds)} s.")


def test_clients_that_lost_patience_are_told_before_all_else() -> None:
    """Seven of nine left while one slot worked."""
    verdict = judged(nodes("a"), [replace(piece(), leaves_after_s=6.0) for _ in range(9)]).verdict
    assert verdict.cause == "failures"
    assert verdict.limited_by.startswith("7 of 9 requests did not end well (7 cancelled)")
    assert verdict.change.startswith("The clients left before their replies came")


def test_a_node_that_broke_off_is_named() -> None:
    """One of nine replies was truncated when its node was lost."""
    cluster = [SimNode.of(name, 1, RATES, lost_at=4.0 if name == "b" else None) for name in "abc"]
    verdict = judged(cluster, [piece(200) for _ in range(9)]).verdict
    assert verdict.cause == "failures"
    assert verdict.limited_by == (
        "1 of 9 requests did not end well (1 truncated); attempts that led to nothing: 1 on b."
    )
    assert "`pairproxy explain`" in verdict.change


def test_refused_requests_are_told_with_what_lets_them_in() -> None:
    """Three of five found no place."""
    refused = [
        replace(served(f"r{number}", 0.0, 0.0, 2.0), attempts=(), outcome=Outcome.REFUSED)
        for number in range(3)
    ]
    run = judged_records(
        [served("u", 0.0, 0.0, 5.0), served("v", 0.0, 0.0, 5.0, B), *refused], {A: 1, B: 1}, None
    )
    assert run.verdict.limited_by == "3 of 5 requests did not end well (3 refused)."
    assert run.verdict.change.startswith("3 requests found no place")
    assert "routing.queue_limit" in run.verdict.change


def test_a_single_failure_among_many_does_not_hide_the_limit() -> None:
    """One of thirty: the verdict is about the other twenty-nine."""
    records = [served(f"r{n}", 0.0, 5.0 * n, 5.0 * n + 5.0) for n in range(29)]
    records.append(replace(served("bad", 0.0, 0.0, 3.0), attempts=(), outcome=Outcome.REFUSED))
    run = judged_records(records, {A: 1}, None)
    assert run.verdict.cause == "single-node"


def test_without_known_speeds_the_picture_has_to_do() -> None:
    """No losses are known; that one node served all is seen all the same."""
    run = judged_records([served(f"r{n}", 0.0, 5.0 * n, 5.0 * n + 5.0) for n in range(9)], {A: 1}, None)
    assert run.report.losses is None
    assert (run.verdict.cause, run.verdict.loss) == ("single-node", None)


def test_nothing_served_is_told() -> None:
    """No attempt at all: no sentence needs a number that is not there."""
    refused = [
        replace(served(f"r{number}", 0.0, 0.0, 2.0), attempts=(), outcome=Outcome.REFUSED)
        for number in range(2)
    ]
    run = judged_records(refused, {A: 1}, None)
    assert run.verdict.limited_by == "2 of 2 requests did not end well (2 refused)."


def test_what_company_costs_as_is_known_is_no_slow_pace() -> None:
    """Nothing else used these machines: the work is the limit, and fewer slots would not help."""
    cluster = nodes("abc", 4, Rates(4000.0, 40.0, 0.15))
    run = judged(cluster, [piece() for _ in range(60)])
    assert run.report.losses is not None
    loss, seconds = run.report.losses.largest
    assert loss == "prediction_error_s"
    assert seconds > DECISIVE * run.report.makespan_s
    assert (run.verdict.cause, run.verdict.loss) == ("slots", None)
    assert f"beyond that, {COMPANY} {shown(seconds)} s" in run.verdict.limited_by
    fewer = judged(nodes("abc", 2, Rates(4000.0, 40.0, 0.15)), [piece() for _ in range(60)])
    assert fewer.report.makespan_s > run.report.makespan_s


def test_time_between_steps_is_told_once() -> None:
    """What a chain calls its tools is not told a second time as slots that stood idle."""
    steps = [
        replace(piece(), after=number - 1 if number else None, think_s=0.3, chain="x") for number in range(8)
    ]
    assert judged(nodes("a"), steps).verdict.limited_by.endswith("2.10 s of it its own tools.")


def test_a_node_that_is_too_slow_to_take_part_has_no_slots_in_what_is_said() -> None:
    """Its slot stood free for good: waves, and what one more would change, are those of the others."""
    slow = SimNode.of("c", 1, Rates(RATES.prefill / 20, RATES.decode / 20, RATES.beta))
    for count, cause in ((6, "waves"), (9, "slots")):
        run = judged([*nodes("ab"), slow], [piece() for _ in range(count)])
        assert not run.report.per_node[slow.node].requests
        alone = judged(nodes("ab"), [piece() for _ in range(count)])
        assert (run.verdict.cause, run.verdict.loss) == (alone.verdict.cause, None) == (cause, None)
        assert run.verdict.limited_by == (
            f"{alone.verdict.limited_by.removesuffix('.')}; c would have ended none of them sooner."
        )
        assert run.verdict.change == alone.verdict.change

from pairproxy.core.accounting import notes
from pairproxy.core.accounting.alone import T1
from pairproxy.core.accounting.chains import Chain
from pairproxy.core.accounting.runs import Run, group_runs
from tests.core.accounting.conversation import A, B, served, worked


def run_of(count: int, *, span_s: float = 10.0) -> Run:
    """So many requests at once, the last of which ends after the span."""
    (run,) = group_runs([served(f"r{number}", 0, 0, span_s) for number in range(count)])
    return run


def test_a_chain_that_takes_most_of_the_run_is_said() -> None:
    """Other machines could only help with the rest."""
    long, short = Chain((0, 1), 0.0, 9.0), Chain((0, 1), 0.0, 3.0)
    said = "The longest chain alone takes 9.0 of 10.0 s"
    assert any(one.startswith(said) for one in notes.on_work(run_of(9), {A: 1, B: 1}, [long], 9.0))
    assert not [*notes.on_work(run_of(9), {A: 1, B: 1}, [short], 3.0)]


def test_a_run_that_is_one_chain_cannot_be_helped() -> None:
    """However many nodes there are."""
    said = [*notes.on_work(run_of(9), {A: 1, B: 1}, [Chain(tuple(range(9)), 0.0, 10.0)], 10.0)]
    assert said == ["A chain: each step waits for the one before, so more machines cannot help."]


def test_requests_that_came_one_by_one_are_not_called_a_chain() -> None:
    """They need not go on with each other; more machines cannot help all the same."""
    (run,) = group_runs([served(f"r{step}", 4.0 * step, 4.0 * step, 4.0 * step + 3.0) for step in range(9)])
    said = [*notes.on_work(run, {A: 1, B: 1}, [], 0.0)]
    assert said == ["Each request came when the one before had ended: so more machines cannot help."]


def test_a_single_replica_and_a_handful_are_said() -> None:
    """Nothing to balance, and nothing to conclude from."""
    assert [*notes.on_work(run_of(3), {A: 1}, [], 0.0)] == [
        "Only one node had a replica of this model: there was nothing to balance.",
        "Fewer than 8 requests: an anecdote, not a statistic.",
    ]


def test_what_a_speedup_is_worth() -> None:
    """Measured and within the bound there is nothing to add."""
    services = [worked(A, 0, 10), worked(B, 0, 10)]
    assert not [*notes.on_speed(services, 2.0, 1.9, T1(19.0, "measured", A))]
    assert [*notes.on_speed(services, 2.0, 0.9, T1(9.0, "measured", A))] == [
        "One node alone would have been faster than all of them together."
    ]
    assert not [*notes.on_speed(services, 2.0, 0.999, T1(9.99, "measured", A))]


def test_a_run_that_beats_the_known_speeds_is_said() -> None:
    """The bound is then what happened."""
    assert len([*notes.on_bound(is_faster=True)]) == 1
    assert not [*notes.on_bound(is_faster=False)]


def test_what_must_stay_is_not_said_to_have_one_replica() -> None:
    """Others have the model, too."""
    assert [*notes.on_work(run_of(9), {A: 1}, [], 0.0, barred=1)] == [
        "Only one node could take these requests: there was nothing to balance."
    ]

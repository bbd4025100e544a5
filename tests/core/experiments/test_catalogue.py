from pairproxy.core.experiments.catalogue import every_case
from pairproxy.core.experiments.setup import TRACES


def test_every_experiment_of_the_simulator_is_there() -> None:
    """In order, and the second study last."""
    names = list(dict.fromkeys(case.experiment for case in every_case()))
    assert names == [*(f"E{number}" for number in range(1, 20)), "S10"]


def test_bursts_are_a_hard_gate() -> None:
    """No run of E1, E2 or, not streamed, E5 is below 0.98 of the best single node; no storm breaks a rule."""
    hard = {case.experiment for case in every_case() for target in case.targets if target.is_hard}
    assert hard == {"E1", "E2", "E5", "E10"}


def test_cases_can_be_told_apart() -> None:
    """By experiment and name; those that need a trace name one that is known."""
    cases = every_case()
    assert len({(case.experiment, case.name) for case in cases}) == len(cases)
    assert {case.trace for case in cases} <= {"", *TRACES}


def test_the_quick_run_is_a_part_of_the_whole() -> None:
    """Never more seeds than the whole has, and some of most experiments."""
    cases = every_case()
    assert all(case.quick <= case.seeds for case in cases)
    assert len({case.experiment for case in cases if case.quick}) >= 15

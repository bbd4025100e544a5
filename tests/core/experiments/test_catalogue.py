from pairproxy.core.experiments.catalogue import every_case
from pairproxy.core.experiments.setup import TRACES


def test_every_experiment_of_the_simulator_is_there() -> None:
    """In order; E10 and E13 have their own places."""
    names = list(dict.fromkeys(case.experiment for case in every_case()))
    assert names[:9] == [f"E{number}" for number in range(1, 10)]
    assert {"E11", "E12", "E14", "E15", "E16", "E17", "E18", "E19", "S10"} <= set(names)


def test_bursts_are_a_hard_gate() -> None:
    """No run of E1 and E2 may be below 0.98 of the best single node."""
    hard = {case.experiment for case in every_case() for target in case.targets if target.is_hard}
    assert hard == {"E1", "E2"}


def test_cases_can_be_told_apart() -> None:
    """By experiment and name; those that need a trace name one that is known."""
    cases = every_case()
    assert len({(case.experiment, case.name) for case in cases}) == len(cases)
    assert {case.trace for case in cases} <= {"", *TRACES}

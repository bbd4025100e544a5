"""All experiments, in the order in which they are shown."""

from pairproxy.core.experiments import accounting, agents, bursts, faults, loads, prefixes
from pairproxy.core.experiments.verdicts import Case


def every_case() -> list[Case]:
    """E1-E19 as far as the simulator can show them, then those of the second study (S10)."""
    cases = [*bursts.CASES, *prefixes.CASES, *faults.CASES, *loads.CASES, *agents.CASES, *accounting.CASES]
    return sorted(cases, key=lambda case: (case.experiment[0], int(case.experiment[1:])))

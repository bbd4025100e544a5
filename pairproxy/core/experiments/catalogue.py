"""All experiments, in the order in which they are shown."""

from pairproxy.core.experiments import accounting, agents, bursts, faults, loads, prefixes, stragglers
from pairproxy.core.experiments.protocol import storm
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case, Measured, Target
from pairproxy.core.experiments.weather import IDLE_LIMIT_S, STARVE_LIMIT_S

STORM_EVENTS = 10_000  # of one seed: a hundred seeds are a million


def _storm(seed: int, _: Setup) -> Measured:
    """The policy under test has no part in it: these are rules of the protocol."""
    result = storm(seed, STORM_EVENTS)
    return {
        "rules broken": len(result.broken),
        "idle_s": result.most_idle_s,
        "waited_s": result.most_waited_s,
        "refused": result.refused / max(result.dispatches, 1),
    }


STORM = Case(
    "E10",
    "10,000 random events between four schedulers, with loss, doubles, delays and restarts",
    _storm,
    (
        Target("rules broken", "max", at_most=0.0, is_hard=True),
        Target("idle_s", "max", at_most=IDLE_LIMIT_S),
        Target("waited_s", "max", at_most=STARVE_LIMIT_S),
        Target("refused", "mean", at_most=0.05),
    ),
    seeds=10,
    quick=1,
)


def every_case() -> list[Case]:
    """E1-E19 as far as the simulator can show them, then those of the second study (S10)."""
    parts = (bursts, stragglers, prefixes, faults, loads, agents, accounting)
    cases = [*(case for part in parts for case in part.CASES), STORM]
    return sorted(cases, key=lambda case: (case.experiment[0], int(case.experiment[1:])))

"""Routing, prefix affinity and slots on a recorded run: each alone, both of routing, all at once. Simulated.

::

    off                                            on
    routing  one node after the other in turn      the node that finishes it first, in seconds
    prefix   the scheduler knows no beginnings     it knows what each cache holds
    slots    one request at a time on each engine  as many as the engines have, or two where all have one

The engines have their caches in all cases, and what waits does so in the one queue there is. Gains multiply
where levers do not touch each other: what two of them gain together is then the product of their ratios.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from statistics import median

from pairproxy.core.advice.trial import Trial, trial_of
from pairproxy.core.advice.words import listed
from pairproxy.core.whatif.recording import Recording
from pairproxy.core.whatif.replay import nodes_of, requests_of, served

TIMES = 2  # slots that are tried on an engine that has one
ADDS_UP = 0.05  # part by which the joint ratio may miss the product, as any gain below it is none


@dataclass(frozen=True, slots=True)
class Switch:
    """Which levers are on."""

    name: str
    routing: bool = False
    prefix: bool = False
    slots: bool = False

    @property
    def policy(self) -> str:
        """The one of core.policies that does that."""
        if self.routing:
            return "fastest-finish"
        return "prefix-aware" if self.prefix else "round-robin"


NONE = Switch("none")
ALONE = (
    Switch("routing", routing=True),
    Switch("prefix affinity", prefix=True),
    Switch("slots", slots=True),
)
ROUTING_AND_PREFIX = Switch("routing and prefix affinity", routing=True, prefix=True)
ALL = Switch("all", routing=True, prefix=True, slots=True)
SWITCHES = (NONE, *ALONE, ROUTING_AND_PREFIX, ALL)


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast as with none: over the rounds, each against its own."""

    value: float  # median
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Lever:
    """What one switch does. Seconds and parts are medians over the rounds."""

    name: str
    makespan_s: float
    latency_s: float
    ttft_s: float
    hit_rate: float
    run: Ratio
    request: Ratio  # by the mean time of a request


@dataclass(frozen=True, slots=True)
class Together:
    """Whether the gains of levers add up: ``product`` of their ratios alone, ``joint`` ratio of all.

    ``of``: what is compared, the run or a request. ``slower``: the levers that alone make it slower.
    """

    product: float
    joint: float
    of: str = "run"
    slower: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """One sentence for a person."""
        sums = (
            f"alone they make a {self.of} {self.product:.2f} times as fast, together {self.joint:.2f} times"
        )
        if max(self.product, self.joint) < 1.0 + ADDS_UP:
            return f"There is nothing to add up: {sums}."
        if self.joint < self.product * (1.0 - ADDS_UP):
            return f"The gains overlap: {sums}. They mend the same loss."
        if self.joint > self.product * (1.0 + ADDS_UP):
            if self.slower:
                makes = "makes" if len(self.slower) == 1 else "make"
                which = listed([*self.slower]).capitalize()
                return f"{which} alone {makes} it slower, and not with the others: {sums}."
            return f"The levers help each other: {sums}."
        return f"The gains add up: {sums}."


def simulate_switch(recording: Recording, switch: Switch, seed: int) -> Trial:
    """The run with these levers on. Raises ValueError for a run that cannot be replayed."""
    on = max(place.slots for place in recording.places)
    places = [
        replace(place, slots=(place.slots if on > 1 else TIMES) if switch.slots else 1, is_loaded=True)
        for place in recording.places
    ]
    requests = [replace(one, tells_blocks=switch.prefix) for one in requests_of(recording)]
    return trial_of(served(nodes_of(places, recording.node), requests, switch.policy, seed))


def compared(names: Sequence[str], rounds: Sequence[Sequence[Trial]]) -> list[Lever]:
    """A row for each name; ``rounds`` hold a trial for each, the first of them with no lever on."""
    found = []
    for index, name in enumerate(names):
        trials = [one[index] for one in rounds]
        found.append(
            Lever(
                name,
                median(one.makespan_s for one in trials),
                median(one.latency_s for one in trials),
                median(one.ttft_s for one in trials),
                median(one.hit_rate for one in trials),
                _ratio([one[0].makespan_s / one[index].makespan_s for one in rounds]),
                _ratio([one[0].latency_s / one[index].latency_s for one in rounds]),
            )
        )
    return found


def together(levers: Sequence[Lever], alone: Sequence[str], joint: str) -> Together:
    """Whether the gains of the levers ``alone`` add up to that of ``joint``.

    By the run's time; by a request's mean where only that is gained, as with clients that wait between.
    """
    runs = {one.name: one.run.value for one in levers}
    requests = {one.name: one.request.value for one in levers}
    of_run = _together(runs, alone, joint, "run")
    of_request = _together(requests, alone, joint, "request")
    return of_request if of_run.joint < 1.0 + ADDS_UP <= of_request.joint else of_run


def _together(ratios: Mapping[str, float], alone: Sequence[str], joint: str, of: str) -> Together:
    slower = tuple(name for name in alone if ratios[name] < 1.0 - ADDS_UP)
    return Together(prod(ratios[name] for name in alone), ratios[joint], of, slower)


def _ratio(values: Sequence[float]) -> Ratio:
    return Ratio(median(values), min(values), max(values))

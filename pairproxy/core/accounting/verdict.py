"""Two sentences about a run: what limited it, what would change that; and what they are concluded from."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pairproxy.core.accounting.occupancy import Occupancy
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.timeline import Timeline
from pairproxy.core.models import NodeId

Cause = Literal[
    "failures",  # so much did not end well that the rest is not the job
    "single-request",
    "chain",  # steps that wait for each other
    "one-at-a-time",  # a client that asks when the last reply has ended
    "few-requests",  # all at once, and fewer than slots
    "arrivals",  # clients asked later than the nodes could have served
    "tools",  # the same, where they are agents at work with their tools
    "one-long-request",
    "waves",  # equal slots, a few requests for each: one more wave is one more request's time
    "slots",  # all slots were busy all the time
    "single-node",  # the same, and nobody else has the model
    "must-stay",  # the same, for a rule or what they ask keeps them from others that have it
    "unequal-nodes",  # one node does nearly all that the others could
    "uneven-end",  # the last requests ended at different moments
    "one-replica",  # requests waited for the only node that has their model
    "waiting-by-plan",
    "cold-loads",
    "repeated-prompts",
    "transport",
    "wasted-attempts",
    "slow-pace",
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limited a run. Encodes to JSON.

    ``loss``: the one of report.losses that it is about, always the largest; None: it is about the bound, or
    about what is no loss. ``seconds`` are those of the makespan that it explains; None: it explains none.
    """

    cause: Cause
    limited_by: str
    change: str
    seconds: float | None = None
    loss: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a verdict is concluded from. ``names``: what a person calls the nodes."""

    report: RunReport
    timeline: Timeline
    occupancy: Occupancy
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, node: NodeId) -> str:
        """Of a node."""
        return self.names.get(node, node[:8])

    def lane_name(self, lane: int) -> str:
        """Of the node of a lane."""
        return self.name(self.timeline.lanes[lane].node)

    def named(self, counts: Counter[str]) -> str:
        """``3 on A, 1 on B``, the most first; no more than three of them."""
        told = [f"{count} on {name}" for name, count in counts.most_common(3)]
        more = len(counts) - len(told)
        return ", ".join(told) + (f" and more on {several(more, 'other node')}" if more else "")

    def of_makespan(self, part_s: float) -> str:
        """``3.1 of 12.0 s``."""
        return f"{shown(part_s)} of {shown(self.report.makespan_s)} s"


def shown(number_s: float) -> str:
    """Seconds as a person wants them: two digits behind the point below ten, none from a thousand on."""
    if number_s < 10.0:
        return f"{number_s:.2f}"
    return f"{number_s:.1f}" if number_s < 1000.0 else f"{number_s:.0f}"


def several(count: int, one: str) -> str:
    """``1 slot``, ``2 slots``."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"

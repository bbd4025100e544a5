"""How far a run is of which something is still open: what ended, runs and waits, and in how many waves."""

import math
from collections.abc import Set
from dataclasses import dataclass

from pairproxy.core.accounting.bounds import waves_bound
from pairproxy.core.accounting.runs import Group
from pairproxy.core.models import RequestId


@dataclass(frozen=True, slots=True)
class Progress:
    """A run so far. ``age_s`` counts from its first arrival."""

    run: str
    age_s: float
    requests: int  # all that arrived
    ended: int
    running: int
    waiting: int
    slots: int
    waves: int  # in which equal requests are done: ceil(requests / slots)
    waves_done: float  # ended / slots
    bound_waves: float
    is_loop: bool = False  # requests came when others had ended: those that are open may not be the last


def progress_of(group: Group, running: Set[RequestId], slots: int, at: float) -> Progress:
    """How far a run is at ``at``, of whose open requests these run.

    ``slots``: of all nodes that hold a model of it; more run at once where an engine's slots were cut since.
    """
    run = sum(one.id in running for one in group.open)
    requests, slots = len(group.ended) + len(group.open), max(slots, run, 1)
    return Progress(
        run=group.id,
        age_s=at - group.started_at,
        requests=requests,
        ended=len(group.ended),
        running=run,
        waiting=len(group.open) - run,
        slots=slots,
        waves=math.ceil(requests / slots),
        waves_done=len(group.ended) / slots,
        bound_waves=waves_bound(requests, slots),
        is_loop=group.is_loop,
    )

"""Reports to draw: simulated runs, a run of thousands, and one whose names try to break out."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from pairproxy.api.reports import report_of
from pairproxy.api.schema import Report
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.report import report_run
from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.works import Places
from pairproxy.core.experiments.accounting import places_of
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.models import ModelName, NodeId, RequestId
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimNode, SimRequest
from tests.core.accounting.conversation import served

BEGAN_UNIX = 1_796_000_000.0
HOSTILE = (
    "</text></title></svg><script>alert('1')</script><img src=x onerror=alert(1)>&amp;\x1b[31m\u202e\ufffe\"`"
)
"""A name that is markup, a terminal's command and a change of direction; none of that may be left of it."""


def pictured(cluster: Sequence[SimNode], requests: Sequence[SimRequest], **names: str) -> Report:
    """Simulate a run and report it; ``names`` of nodes other than their ids."""
    records = sorted(simulate(cluster, requests, Setup().rules()).records, key=lambda one: one.arrived_at)
    slots = {one.node: sum(engine.slots for engine in one.engines) for one in cluster}
    run = Run("job", None, tuple(records))
    called: dict[str, str] = {node: names.get(node, node) for node in slots}
    return told(run, records, slots, called, places_of(cluster))


def told(
    run: Run,
    records: Sequence[RequestRecord],
    slots: Mapping[NodeId, int],
    names: Mapping[str, str],
    places: Places | None = None,
) -> Report:
    """Records as the daemon would tell them."""
    report = report_run(run, slots, None, places=places)
    return report_of(
        report, records, run.started_at, node=next(iter(slots)), names=names, started_unix=BEGAN_UNIX
    )


def many(requests: int, nodes: int, slots: int) -> Report:
    """A burst of so many, whose ids and node ids are as long as real ones."""
    random = Random(7)
    names = [NodeId(f"{random.randrange(16**32):032x}") for _ in range(nodes)]
    free = [(0.0, node, slot) for node in names for slot in range(slots)]
    heapq.heapify(free)
    records = []
    for _ in range(requests):
        at, node, slot = heapq.heappop(free)
        end = at + random.lognormvariate(1.2, 0.6) + 0.6
        records.append(served(f"{random.randrange(16**32):032x}", 0.0, at + 0.01, end, node, run="big"))
        heapq.heappush(free, (end, node, slot))
    called: dict[str, str] = {node: f"node{number}" for number, node in enumerate(names)}
    return told(Run("big", "big", tuple(records)), records, dict.fromkeys(names, slots), called)


def with_hostile_names() -> Report:
    """Node, model, run and request are all called HOSTILE."""
    one = served("r", 0.0, 0.0, 4.0)
    named = replace(one, id=RequestId(HOSTILE), model=ModelName(HOSTILE), error=HOSTILE)
    other = replace(served("s", 0.0, 0.0, 5.0, NodeId(HOSTILE)), model=ModelName(HOSTILE))
    run = Run(HOSTILE, HOSTILE, (named, other))
    return told(run, [named, other], {NodeId("a"): 1, NodeId(HOSTILE): 1}, {"a": HOSTILE, HOSTILE: HOSTILE})

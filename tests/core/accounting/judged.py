"""Runs that really have the limit that a test is about: simulated ones, judged as a daemon would."""

from collections.abc import Sequence
from dataclasses import dataclass

from pairproxy.core.accounting.judging import judge
from pairproxy.core.accounting.occupancy import Occupancy, occupancy
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.report import RunReport, report_run
from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.timeline import Timeline, lay_out
from pairproxy.core.accounting.verdict import Seen, Verdict
from pairproxy.core.accounting.works import Places
from pairproxy.core.experiments.accounting import caches_of, places_of
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.models import NodeId, Rates
from pairproxy.core.simulator import simulate
from pairproxy.core.whatif.alone import Caches, best_single_node
from pairproxy.core.workload import SimNode, SimRequest

HOME = NodeId("a")
RATES = Rates(prefill=2000.0, decode=40.0, beta=0.1, load_s=6.0)
PIECE_S = 800 / 2000 + 100 / 40  # of piece() alone on a node of these rates


@dataclass(frozen=True, slots=True)
class Judged:
    """A run with all that was concluded from it."""

    report: RunReport
    timeline: Timeline
    occupancy: Occupancy
    verdict: Verdict

    @property
    def seen(self) -> Seen:
        """What the parts of the verdict look at."""
        return Seen(self.report, self.timeline, self.occupancy, {"a": "laptop"})


def nodes(names: str, slots: int = 1, rates: Rates = RATES) -> list[SimNode]:
    """Equal ones, called by one letter each."""
    return [SimNode.of(name, slots, rates) for name in names]


def piece(output: int = 100, at: float = 0.0) -> SimRequest:
    """A request of 800 tokens, asked at node a."""
    return SimRequest(at, HOME, 800, output)


def judged(cluster: Sequence[SimNode], requests: Sequence[SimRequest], seed: int = 0) -> Judged:
    """Simulate the requests on the cluster."""
    records = simulate(cluster, requests, Setup().rules(), seed).records
    slots = {one.node: sum(engine.slots for engine in one.engines) for one in cluster if one.engines}
    return judged_records(records, slots, places_of(cluster), caches_of(cluster))


def judged_records(
    records: Sequence[RequestRecord],
    slots: dict[NodeId, int],
    places: Places | None,
    caches: Caches | None = None,
) -> Judged:
    """The same of records that are there already."""
    records = tuple(sorted(records, key=lambda record: record.arrived_at))
    run = Run("job", None, records)
    t1 = best_single_node(run, places, caches) if places is not None and caches is not None else None
    report = report_run(run, slots, t1, places=places)
    timeline = lay_out(records, run.started_at, report.lower_bound_s)
    return Judged(
        report, timeline, occupancy(timeline, report.slots), judge(report, timeline, {"a": "laptop"})
    )

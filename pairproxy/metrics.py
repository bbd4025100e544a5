"""Prometheus text at /metrics: what ended is counted as it ends, what is so now is read when it is asked for.

::

    Ended --record--> Totals ---.
                                +--> Collector of one scrape --> text or OpenMetrics, as Accept says
    View  --status--> gauges ---'

A node is labelled by its short id, which stays when somebody renames the machine and says nothing of its
owner; ``pairproxy_node_info`` has the names. ``origin`` tells requests of this node's own clients ("here")
from those that a peer sent ("peer"), which that peer counts as well: sums over several nodes take the former.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector

from pairproxy.api.schema import NodeStatus, Status
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.models import NodeId
from pairproxy.responses import Asked, Response, StreamResponse
from pairproxy.security.identity import short_id
from pairproxy.totals import BUCKETS, Histogram, Totals, label

_log = logging.getLogger(__name__)

PATIENCE_S = 1.0  # for the last run's report; Prometheus gives a scrape 10 s, and the next one has it

Text = tuple[bytes, str]
"""What is answered, and its content type."""


class Metrics:
    """Answers GET /metrics, with what ``totals`` counted of each record that ended."""

    def __init__(
        self,
        totals: Totals,
        now: Callable[[], Status],
        last_run: Callable[[], Callable[[], RunReport | None]],
        spans: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """``now``: the status without its last run. ``last_run``: what reckons that, in any thread.

        ``spans``: how many spans of traces were sent and lost, as "sent" and "lost".
        """
        self._totals = totals
        self._now = now
        self._last_run = last_run
        self._spans = spans
        self._run: RunReport | None = None
        self._reckoning: asyncio.Future[RunReport | None] | None = None

    async def page(self, request: Asked) -> StreamResponse:
        """GET /metrics."""
        await self._reckon()
        families = _families(self._now(), self._run, self._totals, self._spans())
        text, kind = await asyncio.to_thread(_written, families, request.headers.get("Accept", ""))
        fields = {"Content-Type": kind, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return Response(body=text, headers=fields)

    async def _reckon(self) -> None:
        """Learn of the last run; what takes long goes on beside, once, and is told at a later scrape."""
        if self._reckoning is None:
            self._reckoning = asyncio.get_running_loop().run_in_executor(None, self._last_run())
        reckoning = self._reckoning
        done, _ = await asyncio.wait({reckoning}, timeout=PATIENCE_S)
        if not done or self._reckoning is not reckoning:  # another scrape that waited has taken it
            return
        self._reckoning = None
        if (error := reckoning.exception()) is None:
            self._run = reckoning.result()
        else:  # one run that cannot be reckoned must not take all the other metrics with it
            _log.error("the last run could not be reckoned: %s. Please report it.", type(error).__name__)


def expose(
    status: Status, run: RunReport | None, totals: Totals, spans: Mapping[str, int], accept: str = ""
) -> Text:
    """All metrics, in the format that ``accept`` (the header) asks for."""
    return _written(_families(status, run, totals, spans), accept)


def _families(
    status: Status, run: RunReport | None, totals: Totals, spans: Mapping[str, int]
) -> list[Metric]:
    """All metrics but those of the process, as they are at this moment."""
    sent = _counter(
        "spans", "Spans of traces that a collector took, and those that were lost (docs/watching.md).",
        ["result"], (((result,), count) for result, count in spans.items()),
    )  # fmt: skip
    return [*_node_gauges(status), *_gauges(status), *_run_gauges(run), *_counted(totals), sent]


def _written(families: Iterable[Metric], accept: str) -> Text:
    """As text; also reads files of the kernel, so it is done beside the loop."""
    registry = CollectorRegistry()
    registry.register(_Now(families))
    ProcessCollector(registry=registry)  # memory, CPU and descriptors, on Linux
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Now:
    """What prometheus_client asks for the metrics of one scrape."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    """One without labels; None: not known, so it has no sample."""
    family = GaugeMetricFamily(f"pairproxy_{name}", text)
    if value is not None:
        family.add_metric([], value)
    return family


def _gauges(status: Status) -> Iterator[Metric]:
    build = GaugeMetricFamily("pairproxy_build_info", "The version that runs; always 1.", labels=["version"])
    build.add_metric([status.version], 1)
    yield build
    yield _gauge("queue_length", "Requests that wait at this node for a place.", status.queue_length)
    lag = "The longest that the event loop was held up in the last minute."
    yield _gauge("loop_lag_seconds", lag, status.loop_lag_s)


def _run_gauges(run: RunReport | None) -> Iterator[Metric]:
    ratio = "How many times as fast as on the best node alone the last run was; no sample: not known."
    yield _gauge("run_speedup", ratio, None if run is None else run.speedup)
    part = "The least time possible over the time that the last run took; no sample: not known."
    yield _gauge("run_efficiency", part, None if run is None else run.efficiency)


def _node_gauges(status: Status) -> Iterator[Metric]:
    info = GaugeMetricFamily("pairproxy_node_info", "A node's name; always 1.", labels=["node", "name"])
    up = GaugeMetricFamily("pairproxy_peer_up", "Whether a paired machine is heard.", labels=["node"])
    busy = GaugeMetricFamily("pairproxy_in_flight", "Requests that its engines work on now.", labels=["node"])
    slots = GaugeMetricFamily(
        "pairproxy_slots", "Requests that its engines take at once; engines that answer.", labels=["node"]
    )
    offered = GaugeMetricFamily(
        "pairproxy_slots_offered", "Slots that a node offers to its peers; none while it withholds them.",
        labels=["node"],
    )  # fmt: skip
    nodes = {short_id(NodeId(node.node)): node for node in reversed(status.nodes)}  # a series once
    for short, node in reversed(nodes.items()):
        named = [short]
        info.add_metric([*named, label(node.name)], 1)
        if not node.is_self:
            up.add_metric(named, float(node.is_up))
        busy.add_metric(named, in_flight(node))
        slots.add_metric(named, slots_of(node))
        offered.add_metric(named, 0 if node.withheld else slots_of(node))
    return iter((info, up, busy, slots, offered))


def in_flight(node: NodeStatus) -> int:
    """Requests that all engines of a node work on."""
    return sum(engine.in_flight for engine in node.engines)


def slots_of(node: NodeStatus) -> int:
    """Slots of its engines that answer."""
    return sum(engine.slots for engine in node.engines if engine.is_up)


def _counted(totals: Totals) -> Iterator[Metric]:
    yield _counter(
        "requests", "Requests that ended, by the node of the last attempt.",
        ["model", "node", "outcome", "origin"], totals.requests.items(),
    )  # fmt: skip
    yield _counter(
        "tokens", "Tokens as the engines counted them: prompt (cached ones too), cached, output.",
        ["node", "kind", "origin"], totals.tokens.items(),
    )  # fmt: skip
    yield _counter(
        "refusals", "Requests of clients and peers that were refused.", ["reason"], totals.refusals.items()
    )
    hits = (
        "Part of the prompts' tokens that the engines had in their caches, of the last requests of each node."
    )
    family = GaugeMetricFamily("pairproxy_prefix_hit_ratio", hits, labels=["node"])
    for node, ratio in totals.hit_ratios():
        family.add_metric([node], ratio)
    yield family
    yield _histogram("request_seconds", "From arrival to end, of this node's clients.", totals.request_s)
    yield _histogram(
        "ttft_seconds", "From arrival to a reply's first byte, of this node's clients.", totals.ttft_s
    )
    yield _histogram(
        "queue_seconds", "From arrival to the last dispatch, of this node's clients.", totals.queue_s
    )


def _counter(
    name: str, text: str, labels: list[str], counts: Iterable[tuple[tuple[str, ...], int]]
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"pairproxy_{name}", text, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


def _histogram(name: str, text: str, seen: Histogram) -> HistogramMetricFamily:
    """Buckets hold all that took as long or less, as the format wants it."""
    family = HistogramMetricFamily(f"pairproxy_{name}", text)
    below, buckets = 0, []
    for edge, count in zip([*map(str, BUCKETS), "+Inf"], seen.counts, strict=True):
        below += count
        buckets.append((edge, below))
    family.add_metric([], buckets, seen.sum_s)
    return family

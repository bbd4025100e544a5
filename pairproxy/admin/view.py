"""What the daemon knows, as the JSON of api.schema."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict

import msgspec

from pairproxy import __version__
from pairproxy.admin.engines import engine_status
from pairproxy.admin.explaining import LAST, explain, find
from pairproxy.admin.reporting import Past, Reports, Watched
from pairproxy.api.limiting import what_limits
from pairproxy.api.offering import OfferStatus, peer_says
from pairproxy.api.ports import PortStatus
from pairproxy.api.schema import (
    Explanation,
    NodeStatus,
    Report,
    RunningStatus,
    RunProgress,
    Status,
    WaitingStatus,
)
from pairproxy.clock import wall
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.throughput import Throughput
from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId, Outcome, Place, RequestId
from pairproxy.core.replicas import differing
from pairproxy.core.running import Running
from pairproxy.core.scheduler import Scheduler
from pairproxy.core.whatif.recording import Recording
from pairproxy.peers.book import PeerBook
from pairproxy.security.identity import short_id


class View:
    """Builds /status, /report and /requests."""

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        ledger: Ledger,
        book: PeerBook,
        discovery_problem: Callable[[], str | None],
        peer_port: Callable[[], int | None],
        now: Callable[[], float],
        loop_lag: Callable[[], float] = lambda: 0.0,
        throughput: Throughput | None = None,
    ) -> None:
        """``loop_lag``: the seconds that the event loop was held up at worst in the last minute.

        ``client_ports`` (engine -> port) are known later, and set.
        """
        self.name = name
        self._scheduler = scheduler
        self._ledger = ledger
        self._book = book
        self.client_ports: Mapping[str, int] = {}
        self.ports: Callable[[], tuple[PortStatus, ...]] = tuple  # known later, too
        self._discovery_problem = discovery_problem
        self._peer_port = peer_port
        self._now = now
        self._loop_lag = loop_lag
        self._throughput = throughput or Throughput(lambda _: None)
        self._started_at = now()
        self._reports = Reports(scheduler, ledger, now)
        self._past: Past | None = None
        self.offer: Callable[[], OfferStatus] = OfferStatus  # set later, too

    def status(self) -> Callable[[], Status]:
        """What makes GET /status; any thread may call it."""
        status, watched = self._status(), self._reports.watched()
        return lambda: _with_runs(status, watched())

    def unreckoned(self) -> Callable[[], Status]:
        """The same with the reports that there are: it makes none, and waits for none; for any thread."""
        status, watched = self._status(), self._reports.watched(reckons=False)
        return lambda: _with_runs(status, watched())

    def lately(self) -> Status:
        """The same with what was last told of runs: it takes a few ms, whatever else goes wrong."""
        return _with_runs(self._status(), self._reports.latest)

    def remember(self, past: Past) -> None:
        """Let what memory no longer holds be told from ``past``."""
        self._past = self._reports.past = past

    def recorded(self, run: Run) -> Callable[[], tuple[RunReport, Recording]]:
        """What makes the report of a run with all that a replay of it needs; any thread may call it."""
        return self._reports.recorded(run, self.names())

    def present(self) -> Status:
        """GET /status without what takes long: the last run, the current one, and who is of which."""
        return self._status()

    def last_run(self) -> Callable[[], RunReport | None]:
        """What makes the report of the last run; any thread may call it."""
        return self._reports.last_run()

    def reported(self) -> tuple[int, str] | None:
        """How many reports of runs were made by now, and the run of the last one; None: none yet."""
        return self._reports.made()

    def kept_reports(self) -> tuple[RunReport, ...]:
        """The reports that were made last."""
        return self._reports.kept()

    def next_report_s(self) -> float | None:
        """Seconds until a report that is behind may be made anew for who watches; None: none is."""
        return self._reports.next_s()

    def _status(self) -> Status:
        """All of it but what is told of runs."""
        at, scheduler, outcomes = self._now(), self._scheduler, self._ledger.outcomes
        self._throughput.look(at)
        return Status(
            version=__version__,
            node=scheduler.own,
            name=self.name,
            uptime_s=at - self._started_at,
            policy=scheduler.rules.policy,
            is_draining=scheduler.is_draining,
            queue_length=scheduler.waiting,
            nodes=(self._own_node(at), *self._peers(at)),
            running=tuple(self._running(one, at) for one in scheduler.running),
            requests_done=outcomes.get(Outcome.DONE, 0),
            loop_lag_s=self._loop_lag(),
            outcomes=outcomes,
            discovery_problem=self._discovery_problem(),
            unpaired=self._book.unpaired,
            peer_port=self._peer_port(),
            last_run=None,
            waiting=tuple(
                WaitingStatus(
                    request=one.request.id,
                    model=one.request.model,
                    age_s=at - one.arrived_at,
                    is_local=one.request.local_only or one.request.stays is not None,
                )
                for one in scheduler.queued
            ),
            at_unix=wall(),
            ports=self.ports(),
            history_problem=None if self._past is None else self._past.problem,
            offer=self.offer(),
        )

    def is_ready(self) -> bool:
        """GET /ready: whether any node takes work."""
        return any(True for _ in self._scheduler.places(self._now()))

    def report(
        self, name: str | None, *, with_recording: bool = False, is_watched: bool = False
    ) -> Callable[[], Report]:
        """What makes GET /report: the last run, or the last one called ``name``; any thread may call it."""
        return self._reports.report(name, self.names(), with_recording=with_recording, is_watched=is_watched)

    def explanation(self, request: str) -> Explanation:
        """GET /requests/ID. Raises NotRemembered, BadRequest."""
        return explain(find(self._ledger, request), self.names(), self._now())

    def past_explanation(self, request: str) -> Explanation | None:
        """The same of a request that memory no longer holds, for a thread; None: it is not kept either."""
        if self._past is None:
            return None
        try:
            found = self._past.disk.request(None if request == LAST else request)
            names = {} if found is None else self._past.disk.names()
        except StoreError:
            return None
        if found is None:
            return None
        age_s = max(wall() - found.ended_unix, 0.0)
        return explain(found.record, {**names, **self.names()}, found.record.ended_at + age_s)

    def name_of(self, node: NodeId) -> str:
        """A node's name for people; that of one which is not paired any more is its short id."""
        return self.names().get(node) or short_id(node)

    def names(self) -> dict[str, str]:
        """Each node that is known by its id, with its name for people."""
        names: dict[str, str] = {link.node: link.name for link in self._book.links}
        names[self._scheduler.own] = self.name
        return names

    def _own_node(self, at: float) -> NodeStatus:
        local, running, ports = self._scheduler.local, self._scheduler.running, self.client_ports
        engines = [engine_status(one, ports.get(one.engine)) for one in local.states(running, NodeId(""), at)]
        lost = local.lost_states(running, at)
        engines += [engine_status(one, ports.get(one.engine), is_up=False) for one in lost]
        return NodeStatus(
            node=self._scheduler.own,
            name=self.name,
            is_self=True,
            is_up=True,
            engines=tuple(engines),
            tokens_per_s=self._throughput.current(self._scheduler.own, at),
            recent_tokens_per_s=self._throughput.recent(self._scheduler.own, at),
            withheld=local.withheld,
            withheld_why=self.offer().why if local.withheld else "",
        )

    def _peers(self, at: float) -> list[NodeStatus]:
        documents = {document.node: document for document, _ in self._scheduler.nodes.documents(at)}
        nodes = []
        own = self._scheduler.local.replicas()
        known = Counter(one.place for one in self._scheduler.running)
        for link in self._book.links:
            document = documents.get(link.node)
            engines, withheld = (document.engines, document.withheld) if document else ((), "")
            theirs = [one.replica for engine in engines for one in engine.replicas]
            best = link.addresses.best
            nodes.append(
                NodeStatus(
                    node=link.node,
                    name=link.name,
                    is_self=False,
                    is_up=link.is_up,
                    engines=tuple(
                        engine_status(state, None, known=known[Place(link.node, state.engine)])
                        for state in engines
                    ),
                    found_by=link.found_by,
                    address=str(best) if best else None,
                    age_s=self._scheduler.nodes.age(link.node, at),
                    problem=link.problem,
                    models_differ=differing(own, theirs),
                    tokens_per_s=self._throughput.current(link.node, at),
                    recent_tokens_per_s=self._throughput.recent(link.node, at),
                    hears_us=self._book.is_heard_by(link.node),
                    version=link.publishing.version,
                    clock_ahead_s=link.publishing.clock_ahead_s,
                    withheld=withheld,
                    withheld_why=peer_says(withheld),
                )
            )
        return nodes

    def _running(self, one: Running, at: float) -> RunningStatus:
        opened = self._ledger.find_open(one.attempt.request)  # None: it is over for its client
        arrived_at = one.dispatched_at if opened is None else opened.arrived_at
        return RunningStatus(
            request=one.attempt.request,
            model=one.request.model,
            node=one.place.node,
            engine=one.place.engine,
            age_s=at - one.dispatched_at,
            has_first_byte=one.first_byte_at is not None,
            attempt=one.attempt.number,
            queue_s=one.dispatched_at - arrived_at,
            ttft_s=None if one.first_byte_at is None or opened is None else one.first_byte_at - arrived_at,
            origin=one.request.origin,
            prompt_tokens=one.request.prompt_tokens,
            output_tokens=self._throughput.tokens_of(one.attempt),
        )


def _with_runs(status: Status, watched: Watched) -> Status:
    """The status with the last run, the current one, and of which run each request is."""
    run_of, current, report = watched.run_of, watched.current, watched.current_report
    progress = current and RunProgress(
        **asdict(current),
        speedup=report.speedup if report else None,
        bound_provable=report.bound_provable if report else None,
    )
    told = msgspec.structs.replace(
        status,
        last_run=watched.last_run,
        current_run=progress,
        running=tuple(
            msgspec.structs.replace(one, run=run_of.get(RequestId(one.request))) for one in status.running
        ),
        waiting=tuple(
            msgspec.structs.replace(one, run=run_of.get(RequestId(one.request))) for one in status.waiting
        ),
    )
    return msgspec.structs.replace(told, limit=what_limits(told))

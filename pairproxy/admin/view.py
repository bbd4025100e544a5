"""What the daemon knows, as the JSON of api.schema."""

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from pairproxy import __version__
from pairproxy.admin.explaining import explain, find
from pairproxy.admin.reporting import Reports
from pairproxy.api.schema import (
    EngineStatus,
    Explanation,
    NodeStatus,
    ReplicaStatus,
    Report,
    RunningStatus,
    Status,
)
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.documents import EngineState
from pairproxy.core.models import NodeId, Outcome
from pairproxy.core.replicas import differing
from pairproxy.core.scheduler import Scheduler
from pairproxy.peers.book import PeerBook


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
    ) -> None:
        """``loop_lag``: the seconds that the event loop was held up at worst in the last minute.

        ``client_ports`` (engine -> port) are known later, and set.
        """
        self.name = name
        self._scheduler = scheduler
        self._ledger = ledger
        self._book = book
        self.client_ports: Mapping[str, int] = {}
        self._discovery_problem = discovery_problem
        self._peer_port = peer_port
        self._now = now
        self._loop_lag = loop_lag
        self._started_at = now()
        self._reports = Reports(scheduler, ledger, now)

    def status(self) -> Callable[[], Status]:
        """What makes GET /status; any thread may call it."""
        status, last_run = self._status(), self._reports.last_run()
        return lambda: msgspec.structs.replace(status, last_run=last_run())

    def present(self) -> Status:
        """GET /status without its last run, which takes long."""
        return self._status()

    def last_run(self) -> Callable[[], RunReport | None]:
        """What makes the report of the last run; any thread may call it."""
        return self._reports.last_run()

    def _status(self) -> Status:
        """All of it but the last run."""
        at = self._now()
        scheduler = self._scheduler
        outcomes = {
            str(how): count for how, count in Counter(one.outcome for one in self._ledger.records).items()
        }
        return Status(
            version=__version__,
            node=scheduler.own,
            name=self.name,
            uptime_s=at - self._started_at,
            policy=scheduler.rules.policy,
            is_draining=scheduler.is_draining,
            queue_length=scheduler.waiting,
            nodes=(self._own_node(at), *self._peers(at)),
            running=tuple(self._running(at)),
            requests_done=outcomes.get(Outcome.DONE, 0),
            loop_lag_s=self._loop_lag(),
            outcomes=outcomes,
            discovery_problem=self._discovery_problem(),
            unpaired=self._book.unpaired,
            peer_port=self._peer_port(),
            last_run=None,
        )

    def is_ready(self) -> bool:
        """GET /ready: whether any node takes work."""
        return any(True for _ in self._scheduler.places(self._now()))

    def report(self, name: str | None, *, with_recording: bool = False) -> Callable[[], Report]:
        """What makes GET /report: the last run, or the last one called ``name``; any thread may call it."""
        return self._reports.report(name, self._names(), with_recording=with_recording)

    def explanation(self, request: str) -> Explanation:
        """GET /requests/ID. Raises NotRemembered, BadRequest."""
        return explain(find(self._ledger, request), self._names(), self._now())

    def _names(self) -> dict[str, str]:
        names: dict[str, str] = {link.node: link.name for link in self._book.links}
        names[self._scheduler.own] = self.name
        return names

    def _own_node(self, at: float) -> NodeStatus:
        local, running, ports = self._scheduler.local, self._scheduler.running, self.client_ports
        engines = [_engine(one, ports.get(one.engine)) for one in local.states(running, NodeId(""), at)]
        lost = local.lost_states(running, at)
        engines += [_engine(one, ports.get(one.engine), is_up=False) for one in lost]
        return NodeStatus(self._scheduler.own, self.name, is_self=True, is_up=True, engines=tuple(engines))

    def _peers(self, at: float) -> list[NodeStatus]:
        documents = {document.node: document for document, _ in self._scheduler.nodes.documents(at)}
        nodes = []
        own = self._scheduler.local.replicas()
        for link in self._book.links:
            document = documents.get(link.node)
            theirs = (
                [one.replica for engine in document.engines for one in engine.replicas] if document else []
            )
            best = link.addresses.best
            nodes.append(
                NodeStatus(
                    node=link.node,
                    name=link.name,
                    is_self=False,
                    is_up=link.is_up,
                    engines=tuple(_engine(state, None) for state in document.engines) if document else (),
                    found_by=link.found_by,
                    address=str(best) if best else None,
                    age_s=self._scheduler.nodes.age(link.node, at),
                    problem=link.problem,
                    models_differ=differing(own, theirs),
                )
            )
        return nodes

    def _running(self, at: float) -> list[RunningStatus]:
        return [
            RunningStatus(
                request=one.attempt.request,
                model=one.request.model,
                node=one.place.node,
                engine=one.place.engine,
                age_s=at - one.dispatched_at,
                has_first_byte=one.first_byte_at is not None,
            )
            for one in self._scheduler.running
        ]


def _engine(state: EngineState, port: int | None, *, is_up: bool = True) -> EngineStatus:
    replicas = tuple(
        ReplicaStatus(
            model=one.replica.model,
            identity=one.replica.identity,
            is_loaded=one.is_loaded,
            context_tokens=one.replica.context_tokens,
            prefill_tokens_per_s=one.rates.prefill,
            decode_tokens_per_s=one.rates.decode,
            continues=one.continues,
        )
        for one in state.replicas
    )
    return EngineStatus(
        state.engine,
        state.kind,
        state.version,
        state.slots,
        state.in_flight,
        replicas,
        port,
        is_up,
        state.foreign,
    )

"""What the daemon knows, as the JSON of api.schema."""

from collections import Counter
from collections.abc import Callable, Mapping

from pairproxy import __version__
from pairproxy.api.schema import (
    EngineStatus,
    NodeStatus,
    Record,
    ReplicaStatus,
    Report,
    RunningStatus,
    Status,
)
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.report import RunReport, report_run
from pairproxy.core.accounting.runs import Run, group_runs
from pairproxy.core.documents import EngineState
from pairproxy.core.models import NodeId, Outcome, Place
from pairproxy.core.replicas import differing
from pairproxy.core.scheduler import Scheduler
from pairproxy.core.whatif.alone import best_single_node
from pairproxy.peers.book import PeerBook


class View:
    """Builds /status and /report."""

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        ledger: Ledger,
        book: PeerBook,
        client_ports: Mapping[str, int],
        discovery_problem: Callable[[], str | None],
        now: Callable[[], float],
    ) -> None:
        self._name = name
        self._scheduler = scheduler
        self._ledger = ledger
        self._book = book
        self._client_ports = client_ports
        self._discovery_problem = discovery_problem
        self._now = now
        self._started_at = now()
        self._kept: tuple[tuple[str, int, float], RunReport] | None = None

    def status(self) -> Status:
        """GET /status."""
        at = self._now()
        scheduler = self._scheduler
        run = self._last_run(None)
        outcomes = {
            str(how): count for how, count in Counter(one.outcome for one in self._ledger.records).items()
        }
        return Status(
            version=__version__,
            node=scheduler.own,
            name=self._name,
            uptime_s=at - self._started_at,
            policy=scheduler.rules.policy,
            is_draining=scheduler.is_draining,
            queue_length=scheduler.waiting,
            nodes=(self._own_node(at), *self._peers(at)),
            running=tuple(self._running(at)),
            requests_done=outcomes.get(Outcome.DONE, 0),
            outcomes=outcomes,
            discovery_problem=self._discovery_problem(),
            unpaired=self._book.unpaired,
            last_run=None if run is None else self._reported(run),
        )

    def is_ready(self) -> bool:
        """GET /ready: whether any node takes work."""
        return any(True for _ in self._scheduler.places(self._now()))

    def report(self, name: str | None) -> Report:
        """GET /report: the last run, or the last one called ``name``."""
        run = self._last_run(name)
        names: dict[str, str] = {link.node: link.name for link in self._book.links}
        names[self._scheduler.own] = self._name
        if run is None:
            return Report(None, (), names)
        records = tuple(_record(record, run.started_at) for record in run.records)
        return Report(self._reported(run), records, names)

    def _last_run(self, name: str | None) -> Run | None:
        runs = group_runs(self._ledger.records)
        wanted = [run for run in runs if name is None or run.name == name]
        return max(wanted, key=lambda run: run.ended_at, default=None)

    def _reported(self, run: Run) -> RunReport:
        """The report of a run, kept until it grows: faces ask every second, and a long run takes time."""
        key = (run.id, len(run.records), run.ended_at)
        if self._kept is None or self._kept[0] != key:
            t1 = best_single_node(run, self._scheduler.places(self._now()))
            self._kept = key, report_run(run, self._slots(run), t1)
        return self._kept[1]

    def _slots(self, run: Run) -> dict[NodeId, int]:
        """Of the nodes that could have served some of it."""
        models = {record.model for record in run.records}
        slots: dict[NodeId, int] = {}
        for place, (count, rates) in self._scheduler.places(self._now()).items():
            if not models.isdisjoint(rates):
                slots[place.node] = slots.get(place.node, 0) + count
        return slots

    def _own_node(self, at: float) -> NodeStatus:
        local, running, ports = self._scheduler.local, self._scheduler.running, self._client_ports
        engines = [_engine(one, ports.get(one.engine)) for one in local.states(running, NodeId(""), at)]
        lost = local.lost_states(running, at)
        engines += [_engine(one, ports.get(one.engine), is_up=False) for one in lost]
        return NodeStatus(self._scheduler.own, self._name, is_self=True, is_up=True, engines=tuple(engines))

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
                    address=f"{best.host}:{best.port}" if best else None,
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
        )
        for one in state.replicas
    )
    return EngineStatus(
        state.engine, state.kind, state.version, state.slots, state.in_flight, replicas, port, is_up
    )


def _record(record: RequestRecord, began_at: float) -> Record:
    place: Place | None = record.place
    final = record.final
    return Record(
        request=record.id,
        node=place.node if place else None,
        engine=place.engine if place else None,
        outcome=record.outcome,
        arrived_s=record.arrived_at - began_at,
        dispatched_s=final.dispatched_at - began_at if final else None,
        first_byte_s=final.first_byte_at - began_at if final and final.first_byte_at is not None else None,
        ended_s=record.ended_at - began_at,
        prompt_tokens=record.usage.prompt_tokens,
        output_tokens=record.usage.output_tokens,
        attempts=len(record.attempts),
        reason=final.reason if final else None,
    )

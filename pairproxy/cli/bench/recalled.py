"""A node that remembers a large run, without daemons: what a status and a report of it take."""

import heapq
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeVar

from pairproxy.admin.view import View
from pairproxy.config import Limits
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.commands import Dispatch
from pairproxy.core.documents import EngineState, ReplicaState, StateDocument
from pairproxy.core.events import AttemptFinished, Event, FirstByteReceived, NodeReported, RequestArrived
from pairproxy.core.models import (
    AttemptId,
    Candidate,
    Decision,
    EngineId,
    NodeId,
    Outcome,
    Place,
    Rates,
    Replica,
    RequestId,
    Usage,
)
from pairproxy.core.rules import Rules
from pairproxy.core.scheduler import Scheduler
from pairproxy.core.simulated_request import request_of
from pairproxy.core.workload import MODEL, SimRequest
from pairproxy.peers.book import PeerBook
from pairproxy.security import tls
from pairproxy.security.identity import load_or_create
from pairproxy.security.peer_record import PeerRecord

ENGINE = EngineId("gpu")
SLOTS = 2  # of each node
QUEUED = 200  # requests that wait while the status is made
DECODE = 50.0  # tokens/s
RUN = "large"

T = TypeVar("T")


class Recalled:
    """The view of a node with so many peers, which ended a run of so many requests and has a full queue."""

    def __init__(self, requests: int, nodes: int) -> None:
        with tempfile.TemporaryDirectory() as directory:
            identities = [load_or_create(Path(directory) / f"{number}") for number in range(nodes)]
            own, *others = identities
            context = tls.client_context(own, own.certificate)
        self._scheduler = Scheduler(own.device_id, Rules(queue_limit=QUEUED))
        self._ledger = Ledger()
        self._places = [Place(one.device_id, ENGINE) for one in others]
        book = PeerBook(lambda _: None, lambda: 0.0, lambda _: context, Limits())
        ended_at = self._end_run(requests)
        for number, other in enumerate(others):
            name = f"node-{number:02d}"
            book.add(PeerRecord(other.device_id, name, other.certificate, may_use_me=True, i_may_use=True))
            self._tell(NodeReported(ended_at, _document(other.device_id, name)))
        for number in range(QUEUED + len(others) * SLOTS):
            wanted = SimRequest(ended_at, own.device_id, 200, 100)
            self._tell(RequestArrived(ended_at, request_of(RequestId(f"open-{number}"), wanted)))
        began_at = time.monotonic()
        self.view = View(
            "own", self._scheduler, self._ledger, book, lambda: None, lambda: None,
            lambda: ended_at + time.monotonic() - began_at,
        )  # fmt: skip

    def _tell(self, event: Event) -> None:
        self._ledger.record(event, self._scheduler.handle(event))

    def _end_run(self, requests: int) -> float:
        """A fan-out of requests of 50 to 200 tokens over all slots; only the ledger hears of it. Its end."""
        lengths, free = (
            Random(1),
            [(0.0, index % len(self._places)) for index in range(len(self._places) * SLOTS)],
        )
        candidates = tuple(Candidate(place, 0.0, 0.0, 1.0, 2.0, 0, SLOTS) for place in self._places)
        for number in range(requests):
            name = RequestId(f"r{number:05d}")
            asked = request_of(name, SimRequest(0.0, self._scheduler.own, 200, 100))
            self._ledger.record(RequestArrived(0.0, replace(asked, run=RUN)), [])
            tokens = lengths.randrange(50, 200)
            at, index = heapq.heappop(free)
            decision = Decision(self._places[index], "fastest-finish", "finishes first", candidates)
            attempt = AttemptId(name, 1)
            self._ledger.record(NodeReported(at, _document(NodeId("x"), "x")), [Dispatch(attempt, decision)])
            self._ledger.record(FirstByteReceived(at + 0.1, attempt), [])
            end = at + 0.1 + tokens / DECODE
            usage = Usage(prompt_tokens=200, cached_tokens=0, output_tokens=tokens)
            self._ledger.record(AttemptFinished(end, attempt, Outcome.DONE, usage), [])
            heapq.heappush(free, (end, index))
        return max(free)[0]


def took_ms(make: Callable[[], T]) -> tuple[T, float]:
    """What it makes, and the milliseconds of processor time that it takes."""
    began = time.thread_time()
    made = make()
    return made, (time.thread_time() - began) * 1e3


def _document(node: NodeId, name: str) -> StateDocument:
    replica = ReplicaState(Replica(MODEL, "sha256:0"), True, Rates(80 * DECODE, DECODE, 0.05))
    engine = EngineState(ENGINE, "paced", "", SLOTS, 0, 0, (), (replica,))
    return StateDocument(node, name, 1, "1", 1, False, 0, (engine,))

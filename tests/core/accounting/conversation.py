"""Short words for telling the ledger what happened, and for records that are already written."""

from typing import Any

from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.records import AttemptRecord, RequestRecord
from pairproxy.core.accounting.services import Service
from pairproxy.core.commands import Command, Dispatch, Enqueue, Refuse
from pairproxy.core.errors import PairproxyError
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    FirstByteReceived,
    RequestAbandoned,
    RequestArrived,
)
from pairproxy.core.models import (
    AttemptId,
    Candidate,
    Decision,
    Dialect,
    EngineId,
    ModelName,
    NodeId,
    Outcome,
    Place,
    Request,
    RequestId,
    Usage,
)

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
ENGINE = EngineId("embedded")


def at(node: NodeId) -> Place:
    """The one engine of a node."""
    return Place(node, ENGINE)


def asked(
    name: str, *, client: str = "agent", run: str | None = None, origin: NodeId | None = None, **facts: Any
) -> Request:
    """A request by this id; ``facts`` are more of its fields."""
    return Request(
        RequestId(name), ModelName("m"), Dialect.OPENAI, "/v1/chat/completions", True, 100, None,
        client=client, run=run, origin=origin, **facts,
    )  # fmt: skip


def dispatch(name: str, node: NodeId, number: int = 1, finish_s: float = 9.0) -> Dispatch:
    """Send it to the node, which was priced at ``finish_s``; another one was priced as well."""
    candidates = (
        Candidate(at(NodeId("other")), 0.0, 0.0, 1.0, 99.0, 0, 1),
        Candidate(at(node), 1.0, 0.0, 1.0, finish_s - 2.0, 1, 1),
    )
    decision = Decision(at(node), "fastest-finish", "finishes first", candidates)
    return Dispatch(AttemptId(RequestId(name), number), decision)


def refuse(name: str, error: PairproxyError) -> Refuse:
    """End it with this error."""
    return Refuse(RequestId(name), error)


def enqueue(name: str) -> Enqueue:
    """Keep it waiting at the head of the queue."""
    return Enqueue(RequestId(name), 0)


class Told:
    """A ledger, and the events told to it in the words of a conversation."""

    def __init__(self, **limits: int) -> None:
        self.ledger = Ledger(**limits)

    def arrived(self, time: float, request: Request | str, *commands: Command) -> None:
        """A request arrived, and this is what it led to."""
        request = asked(request) if isinstance(request, str) else request
        self.ledger.record(RequestArrived(time, request), commands)

    def answered(self, time: float, name: str, number: int = 1) -> None:
        """The first body byte came."""
        self.ledger.record(FirstByteReceived(time, AttemptId(RequestId(name), number)), [])

    def finished(
        self,
        time: float,
        name: str,
        *commands: Command,
        number: int = 1,
        outcome: Outcome = Outcome.DONE,
        usage: Usage | None = None,
    ) -> None:
        """A reply ended."""
        attempt = AttemptId(RequestId(name), number)
        self.ledger.record(AttemptFinished(time, attempt, outcome, usage or Usage()), commands)

    def failed(
        self, time: float, name: str, error: PairproxyError, *commands: Command, number: int = 1
    ) -> None:
        """An attempt ended before its first body byte."""
        self.ledger.record(AttemptFailed(time, AttemptId(RequestId(name), number), error), commands)

    def left(self, time: float, name: str, *commands: Command) -> None:
        """The client left."""
        self.ledger.record(RequestAbandoned(time, RequestId(name)), commands)

    @property
    def only(self) -> RequestRecord:
        """The one record there is."""
        (record,) = self.ledger.records
        return record


def served(
    name: str,
    arrived: float,
    start: float,
    end: float,
    node: NodeId = A,
    *,
    client: str = "agent",
    run: str | None = None,
    origin: NodeId | None = None,
    outcome: Outcome = Outcome.DONE,
    tokens: int | None = 100,
    prompt: int = 10,
    cached: int | None = None,
    **facts: Any,
) -> RequestRecord:
    """The record of a request that had one attempt; its first byte came half a second after the dispatch.

    ``facts`` are more of the record's fields.
    """
    first = start + 0.5 if end > start + 0.5 else None
    attempt = AttemptRecord(1, at(node), "finishes first", None, start, first, end, outcome.value)
    request = asked(name, client=client, run=run, origin=origin)
    return RequestRecord(
        request.id, request.model, request.dialect, request.path, client, run, origin,
        arrived, end, (attempt,), outcome, Usage(prompt, cached, tokens), **facts,
    )  # fmt: skip


def worked(node: NodeId, start: float, end: float, tokens: int = 100) -> Service:
    """One request at work."""
    return Service(at(node), start, end, output_tokens=tokens, prompt_tokens=10)

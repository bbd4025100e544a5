"""A dispatcher with its scheduler and ledger, and short blocks to carry out attempts with."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import closing
from typing import Any

from pairproxy.attempt import Attempt
from pairproxy.clock import MonotonicClock
from pairproxy.core.accounting.ledger import Ledger, RequestRecord
from pairproxy.core.documents import PROTOCOL, EngineReport, EngineState, ReplicaState, StateDocument
from pairproxy.core.events import EngineReported, Event, NodeReported
from pairproxy.core.models import Dialect, NodeId, Outcome, Place, Request, RequestId, Usage
from pairproxy.core.rules import Rules
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher
from tests.support.node import ENGINE, FAST, MODEL, REPLICA, settled_at_once

HERE = Place(NodeId("A"), ENGINE)
THERE = Place(NodeId("B"), ENGINE)
DONE = (Outcome.DONE, Usage(output_tokens=1))


class Bridge:
    """A dispatcher with its scheduler and ledger; this node has one engine."""

    def __init__(self, group: asyncio.TaskGroup, settle: Any, rules: Rules | None) -> None:
        self.scheduler = Scheduler(HERE.node, rules)
        self.dispatcher = Dispatcher(self.scheduler, MonotonicClock(), settle, self._spawn)
        self.ledger = Ledger()
        self.dispatcher.listen(self.ledger.record)
        self.events: list[Event] = []
        self.dispatcher.listen(lambda event, _: self.events.append(event))
        self.spawned: list[str] = []
        self._group = group
        self.report()

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.spawned.append(name)
        return self._group.create_task(work, name=name)

    def report(self, *, continues: bool = False) -> None:
        """This node's engine is there; ``continues``: it was seen to go on with texts."""
        going_on = frozenset({MODEL} if continues else ())
        report = EngineReport(ENGINE, "paced", "1", 1, ((REPLICA, True),), continuing=going_on)
        self.dispatcher.tell(EngineReported(self.dispatcher.now(), report))

    def hear_of_peer(self, slots: int = 1, *, continues: bool = False) -> None:
        """A peer publishes that it could serve the model, or go on with a reply too."""
        replica = ReplicaState(REPLICA, True, FAST, continues)
        state = EngineState(ENGINE, "paced", "1", slots, 0, 0, (), (replica,))
        document = StateDocument(THERE.node, "b", PROTOCOL, "epoch", 1, False, 0, engines=(state,))
        self.dispatcher.tell(NodeReported(self.dispatcher.now(), document))

    async def run(
        self, name: str, *blocks: Callable[[Attempt], Awaitable[None]], is_streaming: bool = True
    ) -> list[Place]:
        """Carry out a request, the n-th attempt by the n-th block; returns the places of its attempts."""
        places = []
        request = asked(name, is_streaming=is_streaming)
        with closing(self.dispatcher.attempts(request)) as attempts:
            while (attempt := await attempts.next()) is not None:
                async with attempt:
                    places.append(attempt.place)
                    await blocks[len(places) - 1](attempt)
        return places

    def record_of(self, name: str) -> RequestRecord:
        """The record of one request."""
        (record,) = (record for record in self.ledger.records if record.id == name)
        return record

    @property
    def record(self) -> RequestRecord:
        """The only record."""
        (record,) = self.ledger.records
        return record


@contextlib.asynccontextmanager
async def bridge(settle: Any = settled_at_once, rules: Rules | None = None) -> AsyncIterator[Bridge]:
    """A bridge in a task group of its own."""
    async with asyncio.TaskGroup() as group:
        one = Bridge(group, settle, rules)
        yield one
        one.dispatcher.close()


def asked(name: str, *, is_streaming: bool = True) -> Request:
    """A request of a client of this machine."""
    return Request(RequestId(name), MODEL, Dialect.OLLAMA, "/api/chat", is_streaming, 100, 10, engine=ENGINE)


async def succeed(attempt: Attempt) -> None:
    """A whole reply."""
    attempt.is_sent = True
    attempt.first_byte()
    attempt.finish(*DONE)


async def hang(attempt: Attempt) -> None:
    """An engine that never answers."""
    attempt.is_sent = True
    await asyncio.Event().wait()


async def hang_in_the_middle(attempt: Attempt) -> None:
    """One that stops after its first byte."""
    attempt.first_byte()
    await hang(attempt)


def fail(error: BaseException, *, is_sent: bool = True) -> Callable[[Attempt], Awaitable[None]]:
    """A block that ends with this error."""

    async def block(attempt: Attempt) -> None:
        attempt.is_sent = is_sent
        raise error

    return block

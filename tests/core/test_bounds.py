"""Nothing that a node remembers grows without end, whatever models, clients, runs and chains pass."""

from collections.abc import Iterator

import pytest

from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.commands import Dispatch
from pairproxy.core.costs import MOST_LISTED
from pairproxy.core.errors import BrokenReply, Unreachable
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    EngineReported,
    Event,
    FirstByteReceived,
    NodeLost,
    NodeReported,
    RequestAbandoned,
    RequestArrived,
    TimePassed,
)
from pairproxy.core.lengths import REMEMBERED
from pairproxy.core.models import AttemptId, ModelName, NodeId, Outcome, Usage
from pairproxy.core.residency import Residency
from pairproxy.core.rules import Rules
from tests.core.told import A, B, Told, ask, document, report

REQUESTS = 32_000  # of four events each
ON_DEMAND = REMEMBERED + 1  # sums of the lengths of one kind, which are there once somebody asked
MOST = 5_000  # in any one container: the 4,096 records of the ledger are the most that anything keeps


def containers(of: object, name: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Every container that objects of the package hold: (where, how many)."""
    if id(of) in seen:
        return
    seen.add(id(of))
    if isinstance(of, dict | list | set | frozenset) or hasattr(of, "popleft"):
        yield name, len(of)  # type: ignore[arg-type]
        inner = of.values() if isinstance(of, dict) else of
        for one in list(inner)[:50]:  # type: ignore[call-overload]
            yield from containers(one, f"{name}[]", seen)
    elif type(of).__module__.startswith("pairproxy") and not isinstance(of, Rules):
        listed = ("__slots__", "__mypyc_attrs__")  # the latter where the class is compiled
        slots = [slot for kind in type(of).__mro__ for name in listed for slot in getattr(kind, name, ())]
        for attribute in [*getattr(of, "__dict__", {}), *slots]:
            if attribute != "__weakref__" and hasattr(of, attribute):
                yield from containers(getattr(of, attribute), f"{name}.{attribute}", seen)


class Life:
    """A node that many strangers use: no two requests share a model, a client, a run, a chain or a prompt."""

    def __init__(self) -> None:
        self.told = Told(slots=4, rules=Rules(queue_limit=64))
        self.ledger, self.residency = Ledger(), Residency(A)
        self.events = 0
        self._under_way: list[AttemptId] = []

    def tell(self, event: Event) -> None:
        """Let all hear it who do in a daemon."""
        commands = self.told.tell(event)
        self.events += 1
        self.ledger.record(event, commands)
        self.residency.heard(event, commands)
        self._under_way += [one.attempt for one in commands if isinstance(one, Dispatch)]

    def request(self, number: int) -> None:
        """One request, from its arrival to one of its ends."""
        at = self.told.at = self.told.at + 12.0
        is_guest, is_strange = number % 5 == 0, number % 3 == 0
        request = ask(
            f"r{number}",
            limit=1 + number % 4000,
            model=ModelName(f"model{number}:latest") if is_strange else ModelName("m:latest"),
            origin=NodeId(f"peer{number}") if is_guest else None,
            client=f"client{number}",
            run=f"run{number}",
            chain=f"chain{number}",
            prefix=tuple((number * 4 + block) * 2654435761 % 2**32 for block in range(4)),
        )
        if number % 25 == 0:
            self.tell(self._news(number))
        self.tell(RequestArrived(at, request))
        while self._under_way:
            self._end(self._under_way.pop(), at)
        self.tell(TimePassed(at + 0.01))

    def _end(self, attempt: AttemptId, at: float) -> None:
        number = int(attempt.request[1:])
        if number % 7 == 0:
            self.tell(RequestAbandoned(at, attempt.request, settled=True))
            return
        if number % 71 == 1:
            error = Unreachable("x") if number % 2 else BrokenReply("x")
            self.tell(AttemptFailed(at, attempt, error, settled=True))
            return
        self.tell(FirstByteReceived(at, attempt, is_error=False))
        self.tell(AttemptFinished(at, attempt, Outcome.DONE, Usage(output_tokens=number % 500), settled=True))

    def _news(self, number: int) -> Event:
        kinds: tuple[Event, ...] = (
            NodeReported(
                self.told.at, document(NodeId(f"n{number}"), model=ModelName(f"model{number}:latest"))
            ),
            NodeReported(self.told.at, document(B, epoch=str(number), sequence=number)),
            NodeLost(self.told.at, NodeId(f"n{number - 50}")),
            EngineReported(self.told.at, report(4)),
        )
        return kinds[(number // 25) % 4]

    def sizes(self) -> dict[str, int]:
        """How much every container holds."""
        found: dict[str, int] = {}
        for name, part in (
            ("scheduler", self.told.scheduler),
            ("ledger", self.ledger),
            ("residency", self.residency),
        ):
            for where, size in containers(part, name, set()):
                found[where] = max(size, found.get(where, 0))
        return found


@pytest.mark.slow
def test_a_hundred_thousand_events_are_not_remembered() -> None:
    """Rule 9: after 32,000 strangers no container is larger than the ledger, and none grows on."""
    life = Life()
    for number in range(1, REQUESTS + 1):
        life.request(number)
        if number == REQUESTS * 3 // 4:
            before = life.sizes()
    after = life.sizes()
    assert life.events > 100_000
    assert {where: size for where, size in after.items() if size > MOST} == {}
    grown = {where: size for where, size in after.items() if size > ON_DEMAND + 1.2 * before.get(where, 0)}
    assert grown == {}
    assert not life.told.scheduler.running


def test_models_that_engines_list_for_a_while_are_not_remembered() -> None:
    """Rule 9: an engine and a peer that list another model with every report leave no more than is in use."""
    life, names = Life(), 3000
    for number in range(1, names + 1):
        model, at = ModelName(f"m{number}:latest"), float(number)
        life.tell(EngineReported(at, report(4, model=model, identity=f"sha256:{number}")))
        life.tell(NodeReported(at, document(B, sequence=number, model=model, identity=f"sha256:{number}")))
        life.told.at = at
        if number > names - 100:  # asking costs most of the time, and is the other test's
            life.request(number)
    after = life.sizes()
    assert {where: size for where, size in after.items() if size > MOST_LISTED} == {}
    assert after["scheduler._knows.local.costs._keys"] == MOST_LISTED

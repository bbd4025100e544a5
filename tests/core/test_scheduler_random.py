"""Any order of events, odd ones among them: what must hold whatever happens."""

from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.commands import BreakOff, Command, Dispatch, Refuse
from pairproxy.core.errors import BrokenReply, NodeGone, PairproxyError, SlotsTaken, Unreachable, UpstreamBusy
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    EngineLost,
    EngineReported,
    EngineSettled,
    Event,
    FirstByteReceived,
    NodeLost,
    NodeReported,
    OfferChanged,
    ReplyBroken,
    RequestAbandoned,
    RequestArrived,
    RulesChanged,
    TimePassed,
)
from pairproxy.core.models import AttemptId, EngineId, ModelName, NodeId, Outcome, Place, RequestId, Usage
from pairproxy.core.rules import Rules
from pairproxy.core.scheduler import Scheduler
from tests.core.told import FAST, GPU, SLOW, A, B, C, M, ask, document, report

CPU = EngineId("cpu")
ERRORS: tuple[PairproxyError, ...] = (
    SlotsTaken("taken"), Unreachable("gone"), BrokenReply("broke"), UpstreamBusy("busy"), NodeGone("gone"),
    PairproxyError("ours"),
)  # fmt: skip


class Storm:
    """A scheduler in a world where anything happens, and a count of what became of each request."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.at = 0.0
        rules = Rules(random.choice(["fastest-finish", "least-busy"]), queue_limit=6, queue_timeout_s=30.0)
        self.scheduler = Scheduler(A, rules)
        self.slots = {GPU: 2}
        self.arrived: list[RequestId] = []
        self.ended: Counter[RequestId] = Counter()
        self.running: dict[AttemptId, Place] = {}
        self.settling: dict[AttemptId, Place] = {}
        self.past: list[Event] = []
        self.tell(EngineReported(0.0, report(2)))

    def tell(self, event: Event) -> None:
        """Tell it, and look at every command."""
        commands = self.scheduler.handle(event)
        self.past.append(event)
        for command in commands:
            self.obey(command)
        wakeup = self.scheduler.next_wakeup(self.at)
        assert wakeup is not None or self.scheduler.waiting == 0
        assert wakeup is None or self.scheduler.waiting or self.running  # a straggler is looked at again
        assert wakeup is None or wakeup > self.at

    def obey(self, command: Command) -> None:
        """Do as it says; an engine of this node never gets more than its slots."""
        match command:
            case Dispatch(attempt, decision):
                assert not any(one.request == attempt.request for one in self.running)
                assert not self.ended[attempt.request]
                self.running[attempt] = decision.place
                engine, held = decision.place.engine, [*self.running.values(), *self.settling.values()]
                if decision.place.node == A:
                    assert held.count(decision.place) <= self.slots[engine]
                    started = self.scheduler.running.get(attempt)
                    is_guest = started is not None and started.request.origin is not None
                    assert not (is_guest and self.scheduler.local.withheld)
            case Refuse(request, _):
                self.ended[request] += 1
            case BreakOff(attempt, error):
                if attempt in self.running:  # one may be broken off for two reasons at once
                    self.fail(attempt, error)
            case _:
                pass

    def step(self) -> None:
        """One thing happens."""
        self.at += self.random.choice([0.0, 0.01, 0.3, 2.0])
        acts = [self.arrive, self.arrive, self.end, self.end, self.leave, self.settle, self.hear, self.probe]
        self.random.choice([*acts, self.lose, self.repeat, self.wake, self.change, self.share])()

    def arrive(self) -> None:
        """A client or a peer asks."""
        name = RequestId(f"r{len(self.arrived)}")
        self.arrived.append(name)
        pick = self.random.choice
        model = pick([ModelName("m:latest")] * 4 + [ModelName("other:latest")])
        request = ask(
            name, limit=pick([None, 0, 10, 1000]), model=model, origin=pick([None, None, None, B]),
            engine=pick([None, GPU, CPU]), local_only=pick([False, False, True]),
        )  # fmt: skip
        self.tell(RequestArrived(self.at, request))

    def end(self) -> None:
        """An attempt ends, in any way."""
        if not self.running:
            return
        attempt = self.random.choice(list(self.running))
        if self.random.random() < 0.3:
            self.fail(attempt, self.random.choice(ERRORS))
            return
        if self.random.random() < 0.9:
            self.tell(FirstByteReceived(self.at, attempt))
            if self.random.random() < 0.3:
                settled = self.give_up(attempt)
                self.tell(ReplyBroken(self.at, attempt, self.random.choice([0, 5, 2000]), settled))
                return
        outcome = self.random.choice([Outcome.DONE, Outcome.DONE, Outcome.TRUNCATED, Outcome.ERROR])
        settled = self.give_up(attempt)
        self.ended[attempt.request] += 1
        usage = Usage(prompt_tokens=100, output_tokens=self.random.choice([None, 0, 50, 5000]))
        self.tell(AttemptFinished(self.at, attempt, outcome, usage, settled))

    def fail(self, attempt: AttemptId, error: PairproxyError) -> None:
        """An attempt ends before its first byte."""
        settled = self.give_up(attempt)
        self.tell(AttemptFailed(self.at, attempt, error, settled))

    def leave(self) -> None:
        """A client hangs up, wherever its request is."""
        open_ones = [name for name in self.arrived if not self.ended[name]]
        if open_ones:
            name = self.random.choice(open_ones)
            attempt = next((one for one in self.running if one.request == name), None)
            settled = self.give_up(attempt) if attempt is not None else True
            self.ended[name] += 1
            self.tell(RequestAbandoned(self.at, name, settled))

    def give_up(self, attempt: AttemptId) -> bool:
        """The attempt no longer runs; whether its engine is free of it."""
        place = self.running.pop(attempt)
        settled = place.node != A or self.random.random() < 0.5
        if not settled:
            self.settling[attempt] = place
        return settled

    def settle(self) -> None:
        """An engine is free of what was given up."""
        if self.settling:
            attempt = self.random.choice(list(self.settling))
            del self.settling[attempt]
            self.tell(EngineSettled(self.at, attempt))

    def hear(self) -> None:
        """A peer publishes."""
        pick = self.random.choice
        told = document(
            pick([B, C]), slots=pick([0, 1, 3]), frees=pick([(), (0.0,), (0.5, 9.0)]),
            rates=pick([FAST, SLOW]), epoch=pick(["1", "2"]),
            sequence=self.random.randint(1, 9), draining=pick([False, False, True]),
            identity=pick(["sha256:1", "sha256:1", "sha256:2"]), loaded=pick([True, False]),
            continues=pick([True, True, False]),
        )  # fmt: skip
        self.tell(NodeReported(self.at, told))

    def probe(self) -> None:
        """An engine of this node is found, changed, or gone."""
        if self.random.random() < 0.3:
            self.tell(EngineLost(self.at, CPU))
            return
        engine = self.random.choice([GPU, CPU])
        self.slots[engine] = self.random.choice([1, 2, 4])
        told = report(self.slots[engine], engine=engine)
        continuing = frozenset(self.random.choice([[], [M], [M]]))
        self.tell(EngineReported(self.at, replace(told, continuing=continuing)))

    def lose(self) -> None:
        """A peer is gone."""
        self.tell(NodeLost(self.at, self.random.choice([B, C, NodeId("stranger")])))

    def change(self) -> None:
        """A person sets other rules."""
        pick = self.random.choice
        rules = Rules(
            pick(["fastest-finish", "least-busy", "local-only", "prefix-aware"]), queue_limit=pick([1, 6]),
            queue_timeout_s=pick([5.0, 30.0]), attempts=pick([1, 3]), stale_s=pick([0.5, 3.0]),
            local_only=pick([(), ("other*",)]), rescue=pick([True, False]),
        )  # fmt: skip
        self.tell(RulesChanged(self.at, rules))

    def share(self) -> None:
        """Its owner comes back, or goes."""
        self.tell(OfferChanged(self.at, self.random.choice(["", "owner"])))
        told = self.scheduler.document_for(B, "epoch", 1, "name", self.at)
        assert not (told.withheld and any(engine.promises for engine in told.engines))

    def repeat(self) -> None:
        """The end of something that is over is told again."""
        over = [
            event
            for event in self.past
            if isinstance(
                event, AttemptFailed | AttemptFinished | FirstByteReceived | EngineSettled | ReplyBroken
            )
            and event.attempt not in self.running
            and not (event.attempt in self.settling and isinstance(event, EngineSettled))
        ]
        if over:
            self.tell(self.random.choice(over))

    def wake(self) -> None:
        """Nothing happens until the scheduler wants to be woken."""
        self.at = self.scheduler.next_wakeup(self.at) or self.at
        self.tell(TimePassed(self.at))

    def calm(self) -> None:
        """All that runs comes to its end, and so does all patience."""
        for _ in range(1000):
            while self.settling:
                self.settle()
            while self.running:
                self.end()
            if not self.scheduler.waiting and not self.settling:
                return
            self.wake()


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 150))
@settings(max_examples=150, deadline=None)
def test_whatever_happens_every_request_ends_once(seed: int, steps: int) -> None:
    """No order of events loses a request, ends it twice, runs it twice at once, or overfills an engine."""
    storm = Storm(Random(seed))
    for _ in range(steps):
        storm.step()
    storm.calm()
    assert {name: storm.ended[name] for name in storm.arrived} == dict.fromkeys(storm.arrived, 1)
    assert (storm.scheduler.waiting, len(storm.scheduler.running)) == (0, 0)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_after_any_storm_a_free_node_serves(seed: int) -> None:
    """Nothing that happened leaves a slot charged or the queue stuck: the next request is served."""
    storm = Storm(Random(seed))
    for _ in range(60):
        storm.step()
    storm.calm()
    storm.at += 31.0
    before = len(storm.running)
    storm.tell(RequestArrived(storm.at, ask("last", local_only=True)))
    assert len(storm.running) == before + 1

"""The plain path of the plan (Planner.walk) leads to the same commands as weighing everything does."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.commands import BreakOff, Dispatch
from pairproxy.core.documents import Wanted
from pairproxy.core.events import AttemptFinished, Event, FirstByteReceived, NodeReported, RequestArrived
from pairproxy.core.models import AttemptId, Candidate, ModelName, Outcome, Usage
from pairproxy.core.planner import Planner
from pairproxy.core.queue import Waiting
from pairproxy.core.rules import Rules
from tests.core.told import B, M, Told, ask, document

OTHER = ModelName("other:latest")


class Weighing(Planner):
    """Weighs every request."""

    def _only_place(self, queue: object, at: float) -> list[Candidate] | None:
        return None


def weighing(told: Told, rules: Rules) -> Told:
    """Let its scheduler weigh every request; it has planned nothing yet."""
    knows = told.scheduler._knows
    plain = knows.planner
    knows.planner = Weighing(rules, plain._pricing, plain._asking, plain._chains, plain._random)
    return told


class Both:
    """A node with one engine, told the same as one that weighs everything; a peer has its model at times."""

    def __init__(self, random: Random) -> None:
        self.random = random
        rules = Rules(policy=random.choice(["fastest-finish", "power-of-two", "round-robin", "local-only"]))
        slots = random.choice([1, 3, 40])
        self.plain = Told(slots=slots, rules=rules, random=Random(0))
        self.full = weighing(Told(slots=slots, rules=rules, random=Random(0)), rules)
        self.at, self.count = 0.0, 0
        self.running: list[AttemptId] = []

    def tell(self, event: Event) -> None:
        """Both answer the same, and wake at the same time."""
        commands = self.plain.tell(event)
        assert repr(commands) == repr(self.full.tell(event))
        assert self.plain.scheduler.next_wakeup(self.at) == self.full.scheduler.next_wakeup(self.at)
        self.running += [one.attempt for one in commands if isinstance(one, Dispatch)]
        for one in commands:
            if isinstance(one, BreakOff):
                self.end(one.attempt)

    def end(self, attempt: AttemptId) -> None:
        """A reply of any length."""
        self.running.remove(attempt)
        self.tell(FirstByteReceived(self.at, attempt))
        tokens = self.random.choice([3, 100, 900])
        self.tell(AttemptFinished(self.at, attempt, Outcome.DONE, Usage(output_tokens=tokens)))

    def step(self) -> None:
        """Something happens; mostly a request comes or ends."""
        self.at += self.random.choice([0.0, 0.003, 0.2, 2.0])
        act = self.random.randrange(12)
        if act < 6:
            self.count += 1
            parts = tuple(self.random.randrange(1, 3) for _ in range(act))
            blocks = tuple(hash(parts[: size + 1]) for size in range(act))  # each stands for all before it
            request = ask(
                f"r{self.count}",
                prompt=100 + 64 * len(blocks),
                limit=self.random.choice([None, 0, 100]),
                prefix=blocks,
                client=self.random.choice(["c", "d"]),
                chain=self.random.choice(["", "", "agent"]),
            )
            self.tell(RequestArrived(self.at, request))
        elif act < 11 and self.running:
            self.end(self.random.choice(self.running))
        else:
            model = self.random.choice([M, OTHER])
            self.count += 1
            wanted = self.random.choice([(), (Wanted(M, 3, 900.0, 900.0, 2.0),)])
            told = document(B, slots=2, model=model, sequence=self.count)
            self.tell(NodeReported(self.at, replace(told, wanted=wanted)))


@pytest.mark.pure  # of a compiled Planner nothing interpreted can be made
@given(seed=st.integers(0, 2**32))
@settings(max_examples=12, deadline=None)
def test_what_is_not_weighed_goes_where_weighing_would_send_it(seed: int) -> None:
    """To the digit of each price, whatever runs, waits, and is heard of a peer that has the model or not."""
    both = Both(Random(seed))
    for _ in range(50):
        both.step()


def test_the_plain_path_is_taken() -> None:
    """One place, free: nothing is weighed. None free, or two places: it is."""
    told = Told(slots=1)
    planner, asked = told.scheduler._knows.planner, [Waiting(ask("r"), 0.0)]
    assert planner._only_place(asked, 0.0) is not None
    told.hears(document(B))
    assert planner._only_place(asked, 0.0) is None

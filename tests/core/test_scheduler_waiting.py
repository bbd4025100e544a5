"""When a request may wait beside a free slot: only for a place where it is expected to be done sooner."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pairproxy.core.documents import Promise, StateDocument, Wanted
from pairproxy.core.events import EngineReported, Event, NodeReported, RequestArrived, SpeedMeasured
from pairproxy.core.models import Candidate, ModelName, Place, RequestId, Usage
from pairproxy.core.policies import POLICIES, Asked
from pairproxy.core.queue import Waiting
from pairproxy.core.rules import Rules
from pairproxy.core.scheduler import Scheduler
from tests.core.test_scheduler_random import CPU, Storm
from tests.core.told import FAST, GPU, SLOW, A, B, C, M, ask, report

POLICY = "fastest-finish, looked at"
ROUNDING = 1e-9


Look = tuple[Sequence[Candidate], Candidate]
"""What the policy was given, and its pick."""


class Looking:
    """The default policy, with a memory of what it was asked since the last event."""

    def __init__(self) -> None:
        self.asked: list[Look] = []

    def __call__(self, candidates: Sequence[Candidate], asked: Asked) -> tuple[Candidate, str]:
        """Pick as fastest-finish does."""
        pick, reason = POLICIES["fastest-finish"](candidates, asked)
        self.asked.append((candidates, pick))
        return pick, reason


def price(candidate: Candidate) -> tuple[float, float]:
    """What fastest-finish compares: what the chain loses, then seconds."""
    risks_s = candidate.margin_s + candidate.affinity_s + candidate.delay_s
    return candidate.chain_s, candidate.finish_s + risks_s


class Watched(Storm):
    """A storm of chains, embeddings, shared prefixes, promises, others' backlog; each wait is looked at."""

    policy: Looking | None = None

    def __init__(self, random: Random, policy: Looking) -> None:
        super().__init__(random)
        self.policy = policy
        self.scheduler = Scheduler(A, Rules(POLICY, queue_limit=9, queue_timeout_s=30.0))
        for engine, rates in ((GPU, random.choice([FAST, SLOW])), (CPU, SLOW)):
            usage = Usage(1000, 0, 1000, 1000 / rates.prefill, 1000 / rates.decode)
            self.tell(SpeedMeasured(0.0, engine, M, usage))
        self.tell(EngineReported(0.0, report(2)))

    def arrive(self) -> None:
        """A client or a peer asks; no two prompts are equally long, so that a price tells whose it is.

        Nor when some of a reply (5 or 2,000 tokens) was added to them, to be gone on from.
        """
        number, pick = len(self.arrived), self.random.choice
        name = RequestId(f"r{number}")
        self.arrived.append(name)
        shared, mine = (
            pick([(), (1,), (1, 2, 3), tuple(range(1, 16))]),
            range(1000 * number, 1000 * number + 16),
        )
        request = ask(
            name, prompt=4000 + 11 * number, limit=pick([None, 0, 10, 1000]), origin=pick([None] * 5 + [B]),
            engine=pick([None, GPU, CPU]), local_only=pick([False, False, True]), client=pick(["a", "b"]),
            prefix=(*shared, *mine) if shared else (), chain=pick(["", "one", "two"]),
        )  # fmt: skip
        self.tell(RequestArrived(self.at, request))

    def tell(self, event: Event) -> None:
        """Tell it, then look at who waits."""
        if isinstance(event, NodeReported):
            event = replace(event, document=self.richer(event.document))
        if self.policy is not None:
            self.policy.asked.clear()
        for command in self.scheduler.handle(event):
            self.obey(command)
        for waiting in self.scheduler._knows.queue:
            self.look_at(waiting, self.policy.asked if self.policy is not None else [])

    def change(self) -> None:
        """The rules stay: another policy would not be looked at."""

    def richer(self, plain: StateDocument) -> StateDocument:
        """A document with promises, and with what its node waits for."""
        pick = self.random.choice
        promises = tuple(Promise(pick([A, B, C]), 0.25) for _ in range(pick([0, 0, 1, 2])))
        engines = [replace(one, asks=pick([False, True]), promises=promises) for one in plain.engines]
        wanted = Wanted(ModelName(pick([M, "other:latest"])), 3, 900.0, 900.0, 2.0, (), pick([0, 1, 3]))
        return replace(plain, engines=tuple(engines), wanted=pick([(), (wanted,)]))

    def look_at(self, waiting: Waiting, asked: Sequence[Look]) -> None:
        """If a slot is free that it could have, its price elsewhere is lower than at each of these."""
        free = [*self.free_for(waiting)]
        if not free:
            return
        ((candidates, pick),) = [one for one in asked if self.is_of(waiting, one[1])]
        assert not pick.is_free or pick.place in self.scheduler.asked_for
        rivals = [one for one in candidates if one.is_free and one.place in free]
        assert len(rivals) == len(free)
        assert all(price(pick) <= (price(one)[0], price(one)[1] + ROUNDING) for one in rivals)

    def free_for(self, waiting: Waiting) -> Iterator[Place]:
        """Places with a slot that nobody has or is promised, where the request could run now."""
        pricing, avoidance = self.scheduler._knows.pricing, self.scheduler._knows.avoidance
        occupancies = pricing.occupancies(self.at)
        for place, _ in pricing.places(waiting.request, waiting.excluded, self.at):
            is_left_alone = avoidance.is_avoided(place, self.at) or place in self.scheduler.asked_for
            if occupancies[place].wait_s <= 0.0 and not is_left_alone:
                yield place

    def is_of(self, waiting: Waiting, candidate: Candidate) -> bool:
        """Whether a candidate is one of this request's, by the length of its prompt."""
        rates = self.scheduler._knows.pricing.rates(candidate.place, waiting.request.model)
        return round(candidate.cached_tokens + candidate.read_s * rates.prefill) == (
            waiting.request.prompt_tokens
        )


@given(seed=st.integers(0, 2**32))
@example(seed=2020)  # its owner came back: a slot that was promised stood idle until the next event
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_request_waits_beside_a_free_slot_only_for_a_better_place(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its chain, its prefix and all risks reckoned; or for a promise that it has asked for."""
    policy = Looking()
    monkeypatch.setitem(POLICIES, POLICY, policy)
    storm = Watched(Random(seed), policy)
    for _ in range(80):
        storm.step()

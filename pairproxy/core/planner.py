"""The walk over the queue: who goes where now, and who waits for a place that is better than a free one."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from pairproxy.core.asking import Asking
from pairproxy.core.chain_homes import ChainHomes
from pairproxy.core.errors import ModelNotFound, PairproxyError, SlotsTaken
from pairproxy.core.glance import Ahead
from pairproxy.core.models import Candidate, Decision, ModelName, Place, Request
from pairproxy.core.policies import BY_FINISH, POLICIES, Asked
from pairproxy.core.pricing import Pricing
from pairproxy.core.queue import Waiting
from pairproxy.core.rules import Rules


@dataclass(frozen=True, slots=True)
class Placed:
    """A request that goes to ``pick`` now."""

    waiting: Waiting
    pick: Candidate
    decision: Decision


MOST_USED = 1024  # places of which it is remembered when they were picked last; a cluster has tens


class _Walk:
    """What one walk over the queue knows, and how it is filled while it goes on."""

    def __init__(self, pricing: Pricing, queue: list[Waiting], at: float) -> None:
        self.at = at
        self.occupancies = pricing.occupancies(at)
        self.risks = pricing.risks(queue, self.occupancies, at)
        self.glance = pricing.glance(self.risks, self.occupancies, at)
        self.held: list[Place] = []  # where a free slot was not used for want of a promise
        self._free = list(self.occupancies.values())

    def has_free(self) -> bool:
        """Whether any slot is still free now."""
        self._free = [occupancy for occupancy in self._free if occupancy.wait_s <= 0.0]
        return bool(self._free)


class Planner:
    """Plans with one policy; ties are broken in turn. ``random`` is for policies that draw."""

    def __init__(
        self,
        rules: Rules,
        pricing: Pricing,
        asking: Asking,
        chains: ChainHomes,
        random: Random,
    ) -> None:
        self.follow(rules)
        self._pricing = pricing
        self._asking = asking
        self._chains = chains
        self._random = random
        self._turn = 0
        self._used: dict[Place, int] = {}  # the turn at which each was picked last, the latest at the end
        self.settles_at: float | None = None  # when to plan anew, as all of a burst will be here

    def follow(self, rules: Rules) -> None:
        """Plan by the policy of these rules from now on."""
        self._name = rules.policy
        self._policy = POLICIES[rules.policy]
        self._is_by_finish = rules.policy in BY_FINISH
        self._prefix_length = rules.prefix_length
        self._concurrency_threshold = rules.concurrency_threshold

    def walk(self, queue: Iterable[Waiting], at: float) -> tuple[list[Placed], deque[Waiting]]:
        """Plan the queue, in its order; returns what goes now and what keeps waiting, in order.

        A pick that is busy is noted in the plan, so that whoever stands behind reckons with it.
        """
        queue = list(queue)
        walk = _Walk(self._pricing, queue, at) if queue else None
        self._asking.begin()
        self._pricing.backlog.begin(at)
        self._pricing.holders.hold()
        self._chains.settle(queue, at)
        placed: list[Placed] = []
        rest: deque[Waiting] = deque()
        for waiting in queue:
            one = self._planned(waiting, walk) if walk is not None else None
            if one is None:
                rest.append(waiting)
            else:
                placed.append(one)
        self._pricing.holders.let_go()
        self._asking.end(walk.held if walk is not None else ())
        self.settles_at = walk.risks.settles_at if walk is not None else None
        return placed, rest

    def _planned(self, waiting: Waiting, walk: "_Walk") -> Placed | None:
        """Where the next request goes now; None: it waits, and the plan knows where."""
        request, occupancies, at = waiting.request, walk.occupancies, walk.at
        walk.risks.turn_to_next()
        if not walk.has_free():
            return None
        self._pricing.backlog.take_turns(occupancies, at)
        ahead = self._ahead(waiting, walk)
        if ahead is not None:
            self._asking.wish(ahead.occupancy.place, request)
            ahead.occupancy.take(ahead.before_s, ahead.alone_s)
            return None
        candidates = self._pricing.candidates(request, waiting.excluded, occupancies, at)
        if not candidates:
            return None
        candidates = walk.risks.priced(request, self._pricing.lengths(request), candidates)
        candidates = self._chains.priced(request, candidates)
        pick, reason = self._policy(candidates, self._asked(request))
        occupancies[pick.place].take(pick.load_s + pick.prefill_s, pick.alone_s)
        if pick.is_free and self._asking.may_send(pick.place, at):
            return self._place(waiting, candidates, pick, reason)
        self._asking.wish(pick.place, request)
        if pick.is_free:
            walk.held.append(pick.place)
        return None

    def _ahead(self, waiting: Waiting, walk: "_Walk") -> Ahead | None:
        """Where it would wait, if that is all there is to know of it."""
        if not self._is_by_finish or self._chains.has_plan(waiting.request):
            return None
        return walk.glance.ahead(waiting.request, waiting.excluded, self._pricing.lengths(waiting.request))

    def admit(self, waiting: Waiting, at: float) -> Placed | PairproxyError:
        """Place a peer's request in a slot that is free now; else answer why it cannot be."""
        candidates = self._pricing.candidates(
            waiting.request, (), self._pricing.occupancies(at, waiting.request.origin), at
        )
        free = [candidate for candidate in candidates if candidate.is_free]
        if not candidates:
            return no_such_model(waiting.request.model)
        if not free:
            return SlotsTaken("All slots of this node are in use.")
        return self._place(waiting, free, *self._policy(free, self._asked(waiting.request)))

    def first_free_s(self, at: float) -> float:
        """Seconds until a slot is expected to come free; 1.0 where there is none."""
        waits = [occupancy.wait_s for occupancy in self._pricing.occupancies(at).values()]
        return min(waits, default=1.0)

    def _asked(self, request: Request) -> Asked:
        return Asked(
            request, self._random, self._turn, self._used, self._prefix_length, self._concurrency_threshold
        )

    def _place(self, waiting: Waiting, candidates: list[Candidate], pick: Candidate, reason: str) -> Placed:
        self._turn += 1
        self._used.pop(pick.place, None)
        self._used[pick.place] = self._turn
        if len(self._used) > MOST_USED:
            del self._used[next(iter(self._used))]
        decision = Decision(pick.place, self._name, reason, tuple(candidates), pick.called)
        return Placed(waiting, pick, decision)


def no_such_model(model: ModelName) -> ModelNotFound:
    """The error for a model that no node has."""
    return ModelNotFound(f"No node has the model {model!r}. See `pairproxy status` for what is there.")

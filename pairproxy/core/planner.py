"""The walk over the queue: who goes where now, and who waits for a place that is better than a free one."""

from dataclasses import dataclass
from random import Random
from typing import Final

from pairproxy.core.asking import Asking
from pairproxy.core.chain_homes import ChainHomes
from pairproxy.core.errors import ModelNotFound, PairproxyError, SlotsTaken
from pairproxy.core.glance import Ahead, Glance
from pairproxy.core.models import Candidate, Decision, ModelName, Place, Request
from pairproxy.core.occupancies import Occupancies
from pairproxy.core.policies import BY_FINISH, POLICIES, Asked
from pairproxy.core.pricing import Pricing
from pairproxy.core.queue import Waiting
from pairproxy.core.rules import Rules


@dataclass(slots=True, unsafe_hash=True, init=False)
class Placed:
    """A request that goes to ``pick`` now."""

    waiting: Final[Waiting]
    pick: Final[Candidate]
    decision: Final[Decision]

    def __init__(self, waiting: Waiting, pick: Candidate, decision: Decision) -> None:
        self.waiting, self.pick, self.decision = waiting, pick, decision


MOST_USED: Final = 1024  # places of which it is remembered when they were picked last; a cluster has tens


class _Walk:
    """What one walk over the queue knows, and how it is filled while it goes on."""

    def __init__(self, pricing: Pricing, waiting: int, held: list[Place], at: float) -> None:
        self.at = at
        self.held = held
        self.occupancies = pricing.occupancies(at)
        self.risks = pricing.risks(waiting, self.occupancies, at)
        self.glance = pricing.glance(self.risks, self.occupancies, at) if waiting > 1 else None
        self._maybe_free = pricing.slots.places()
        self._maybe_free.reverse()

    def has_free(self) -> bool:
        """Whether any slot is still free now."""
        places = self._maybe_free
        while places and self.occupancies[places[-1]].wait_s > 0.0:
            places.pop()  # a plan only fills what is free
        return len(places) > 0


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

    def rest(self, at: float) -> None:
        """Plan nothing, as nothing waits."""
        self.settles_at = None
        self._asking.begin()
        self._chains.settle((), at)
        self._pricing.holders.let_go()
        self._asking.end(())

    def walk(self, queue: list[Waiting], at: float) -> tuple[list[Placed], list[Waiting]]:
        """Plan the queue, in its order; returns what goes now and what keeps waiting, in order.

        A pick that is busy is noted in the plan, so that whoever stands behind reckons with it.
        """
        if not queue:
            self.rest(at)
            return [], []
        self.settles_at = None
        self._asking.begin()
        self._chains.settle(queue, at)
        held: list[Place] = []  # where a free slot is not used for want of a promise
        self._pricing.holders.hold()
        self._pricing.bursts.update(queue)
        only = self._only_place(queue, at)
        if only is None:
            placed, rest = self._walk(queue, held, at)
        elif (one := self._sent(queue[0], only, held, at)) is not None:
            placed, rest = [one], []
        else:
            placed, rest = [], queue
        self._pricing.holders.let_go()
        self._asking.end(held)
        return placed, rest

    def _only_place(self, queue: list[Waiting], at: float) -> list[Candidate] | None:
        """The plain path: one request waits, one place has what it asks for, and a slot is free there.

        Then nothing is to be weighed: not what waits at other origins (they take no slot that is free now),
        nor what a long reply would hold up elsewhere. It is priced all the same, for whoever asks why.
        """
        waiting = queue[0]
        if len(queue) > 1 or len(self._pricing.places(waiting.request, waiting.excluded, at)) != 1:
            return None
        occupancies = self._pricing.occupancies(at)
        candidates = self._pricing.candidates(waiting.request, waiting.excluded, occupancies, at)
        return candidates if candidates[0].is_free else None

    def _walk(self, queue: list[Waiting], held: list[Place], at: float) -> tuple[list[Placed], list[Waiting]]:
        """Weigh each request against all places and those before it."""
        walk = _Walk(self._pricing, len(queue), held, at)
        self._pricing.backlog.begin(at)
        placed: list[Placed] = []
        rest: list[Waiting] = []
        for waiting in queue:
            one = self._planned(waiting, walk)
            if one is None:
                rest.append(waiting)
            else:
                placed.append(one)
        self.settles_at = walk.risks.settles_at
        return placed, rest

    def _planned(self, waiting: Waiting, walk: "_Walk") -> Placed | None:
        """Where the next request goes now; None: it waits, and the plan knows where."""
        request, occupancies, at = waiting.request, walk.occupancies, walk.at
        walk.risks.turn_to_next()
        if not walk.has_free():
            return None
        self._pricing.backlog.take_turns(occupancies, at)
        ahead = self._ahead(waiting, walk.glance) if walk.glance is not None else None
        if ahead is not None:
            self._asking.wish(ahead.occupancy.place, request)
            ahead.occupancy.take(ahead.before_s, ahead.alone_s)
            return None
        candidates = self._pricing.candidates(request, waiting.excluded, occupancies, at)
        if not candidates:
            return None
        candidates = walk.risks.priced(request, candidates)
        return self._sent(waiting, candidates, walk.held, at, occupancies)

    def _sent(
        self,
        waiting: Waiting,
        candidates: list[Candidate],
        held: list[Place],
        at: float,
        occupancies: Occupancies | None = None,
    ) -> Placed | None:
        """Let the policy pick; None: it waits for that place. ``occupancies``: of others in the plan."""
        candidates = self._chains.priced(waiting.request, candidates)
        pick, reason = self._policy(candidates, self._asked(waiting.request))
        if occupancies is not None:
            occupancies[pick.place].take(pick.load_s + pick.prefill_s, pick.alone_s)
        if pick.is_free and self._asking.may_send(pick.place, at):
            return self._place(waiting, candidates, pick, reason)
        self._asking.wish(pick.place, waiting.request)
        if pick.is_free:
            held.append(pick.place)
        return None

    def _ahead(self, waiting: Waiting, glance: Glance) -> Ahead | None:
        """Where it would wait, if that is all there is to know of it."""
        if not self._is_by_finish or self._chains.has_plan(waiting.request):
            return None
        return glance.ahead(waiting.request, waiting.excluded, self._pricing.lengths(waiting.request))

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

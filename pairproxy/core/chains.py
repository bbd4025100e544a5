"""The chains that this node's clients go through: sub-agents, whose every prompt repeats the last.

A step is known as the next one of a chain by the name that its client gave (Request.chain), or by its prompt,
which begins with the prompt of the step before (Request.prefix). How many steps are still to come is what the
last chains tell; before any has ended, those of public coding sessions do (docs/scheduling.md).
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

from pairproxy.core.models import ModelName, Place, Request, RequestId

STEPS_BEFORE = (2, 4, 4, 4, 5, 5, 6, 7, 7, 10, 10, 11, 11, 11, 11, 12, 12, 12, 14, 17, 18, 22)
"""Steps of the sub-agents in public coding sessions (callanjfox/kv-cache-tester, 94f6046d)."""
GROWTH_TOKENS, THINK_S = 5000.0, 8.5  # of a step on average, in the same sessions
OUTPUT_TOKENS, LAST_OUTPUT_TOKENS = 240.0, 3290.0  # of a step's reply in the same; the last one sums all up
PRIOR_STEPS: Final = 10.0  # how many steps that were seen the averages above weigh as much as
MOST_TIMES = 3.0  # of the average that one step counts: a file read whole would make all chains look huge
MOST_STEPS_SEEN: Final = 200.0  # of which an average is made: later ones count as much as the two-hundredth
REMEMBERED: Final = 64  # chains that ended; as many and STEPS_BEFORE is forgotten
SHORTEST_TOKENS: Final = 1000  # of a prompt: of a shorter one it does not matter where it is cached
MOST_CHAINS: Final = 256  # known at once, the longest silent goes first: a busy client has a dozen
LAST_TIMES: Final = 4.0  # a reply of so many times the usual length is the one that sums all up
SILENT_S: Final = 180.0  # after which a chain is over: few tools work longer
PAUSE_TIMES: Final = 4.0  # of the average tool time: a chain that pauses so long has probably ended
SHORTEST_PAUSE_S: Final = 20.0  # the same where tools are quick


@dataclass(slots=True)
class Chain:
    """What is known of one chain."""

    number: int
    model: ModelName
    name: tuple[str, str] | None  # (client, the name that it gave)
    last_at: float  # when its latest step arrived or ended
    prompt_tokens: int = 0  # of its latest step
    steps: int = 0  # that arrived
    step: RequestId | None = None  # the one that waits or runs now; None: it pauses
    place: Place | None = None  # where its latest step went
    output_tokens: int = 0  # of its latest reply; 0: not known
    ends: tuple[int, ...] = ()  # hashes near the end of its latest prompt


@dataclass(slots=True)
class _Average:
    value: float
    weight: float = PRIOR_STEPS

    def learn(self, value: float) -> None:
        self.weight = min(self.weight + 1.0, MOST_STEPS_SEEN)
        self.value += (min(value, MOST_TIMES * self.value) - self.value) / self.weight


@dataclass(slots=True)
class Habits:
    """What steps are like here: new prompt tokens of each, tokens of its reply, seconds before it."""

    output: _Average = field(default_factory=lambda: _Average(OUTPUT_TOKENS))  # but of the last step's
    last_output: _Average = field(default_factory=lambda: _Average(LAST_OUTPUT_TOKENS))
    growth: _Average = field(default_factory=lambda: _Average(GROWTH_TOKENS))
    think: _Average = field(default_factory=lambda: _Average(THINK_S))

    def is_last(self, tokens: float) -> bool:
        """Whether a reply of so many tokens, so far, is the last of its chain by its length."""
        return tokens > LAST_TIMES * self.output.value


class ChainTable:
    """The chains of one node's clients. Bounded by MOST_CHAINS and REMEMBERED."""

    def __init__(self) -> None:
        self.habits = Habits()
        self.changes = 0  # counts whatever may change a plan
        self._chains: OrderedDict[int, Chain] = OrderedDict()  # the longest silent first
        self._by_name: dict[tuple[ModelName, str, str], Chain] = {}
        self._by_end: dict[tuple[ModelName, int], Chain] = {}
        self._by_step: dict[RequestId, Chain] = {}
        self._totals: deque[int] = deque(maxlen=REMEMBERED)
        self._count = 0

    def arrived(self, request: Request, at: float) -> None:
        """A client's request: the next step of a chain, the first of one, or none of any.

        An agent brings its tools with every step. What brings none, and gives no name, is somebody's chat:
        each of its replies is waited for, not the last.
        """
        self._forget_silent(at)
        if request.origin is not None or request.id in self._by_step:
            return
        is_agents = "tools" in request.needs and request.prefix and request.prompt_tokens >= SHORTEST_TOKENS
        if not request.chain and not is_agents:
            return
        chain = self._continued(request)
        if chain is None:
            chain = self._begin(request, at)
        else:
            self.habits.think.learn(at - chain.last_at)
            self.habits.growth.learn(max(float(request.prompt_tokens - chain.prompt_tokens), 0.0))
            if chain.output_tokens:
                self.habits.output.learn(float(chain.output_tokens))
        chain.steps += 1
        chain.step = request.id
        chain.prompt_tokens = request.prompt_tokens
        self._by_step[request.id] = chain
        self._remember_ends(chain, request)
        self._touch(chain, at)

    def sent(self, step: RequestId, place: Place) -> None:
        """A step went to a place."""
        chain = self._by_step.get(step)
        if chain is not None:
            chain.place = place
            self.changes += 1

    def ended(self, step: RequestId, at: float, output_tokens: int = 0) -> None:
        """A step is over, in whatever way; its reply had so many tokens (0: not known)."""
        chain = self._by_step.pop(step, None)
        if chain is not None:
            chain.step = None
            chain.output_tokens = output_tokens
            self._touch(chain, at)

    def of(self, step: RequestId) -> Chain | None:
        """The chain of a step that waits or runs."""
        return self._by_step.get(step)

    def active(self, at: float) -> list[Chain]:
        """The chains that are at work, or pause as they do between two steps."""
        return [chain for chain in self._chains.values() if chain.step is not None or self._pauses(chain, at)]

    def _pauses(self, chain: Chain, at: float) -> bool:
        """Whether a chain with no step here is expected to come back."""
        longest_s = max(PAUSE_TIMES * self.habits.think.value, SHORTEST_PAUSE_S)
        return at - chain.last_at <= longest_s and not self.habits.is_last(chain.output_tokens)

    def more_steps(self, chain: Chain) -> list[int]:
        """Equally likely numbers of steps after the latest one, in order.

        Of one that is longer than all that were seen, nothing is known but its length: it may end now, or be
        half over.
        """
        before = STEPS_BEFORE[: len(STEPS_BEFORE) * (REMEMBERED - len(self._totals)) // REMEMBERED]
        totals = sorted([*self._totals, *before])
        more = [total - chain.steps for total in totals if total >= chain.steps]
        return more or [0, chain.steps // 4, chain.steps // 2, chain.steps]

    # --- what continues what ----------------------------------------------------------------------------

    def _continued(self, request: Request) -> Chain | None:
        """The chain whose next step this is. One whose step is not over is forked, not continued."""
        if request.chain:
            found = self._by_name.get((request.model, request.client, request.chain))
            return found if found is not None and found.step is None else None
        for block in reversed(request.prefix):
            found = self._by_end.get((request.model, block))
            if found is not None:
                return found if found.step is None else None
        return None

    def _begin(self, request: Request, at: float) -> Chain:
        self._count += 1
        name = (request.client, request.chain) if request.chain else None
        chain = Chain(self._count, request.model, name, at)
        self._chains[chain.number] = chain
        if name is not None:
            self._by_name[request.model, *name] = chain
        if len(self._chains) > MOST_CHAINS:
            self._forget(next(iter(self._chains.values())))
        return chain

    def _remember_ends(self, chain: Chain, request: Request) -> None:
        """Its prompt's last two blocks: the last one may lie across the place where the next goes on."""
        for one in chain.ends:
            if self._by_end.get((chain.model, one)) is chain:
                del self._by_end[chain.model, one]
        chain.ends = request.prefix[-2:]
        for one in chain.ends:
            self._by_end[chain.model, one] = chain

    def _touch(self, chain: Chain, at: float) -> None:
        chain.last_at = at
        self._chains.move_to_end(chain.number)
        self.changes += 1

    def _forget_silent(self, at: float) -> None:
        while self._chains:
            chain = next(iter(self._chains.values()))
            if at - chain.last_at < SILENT_S:
                return
            if chain.step is not None:
                self._touch(chain, at)  # a long step is no silence
                continue
            self._totals.append(chain.steps)
            if chain.output_tokens:
                self.habits.last_output.learn(float(chain.output_tokens))
            self._forget(chain)

    def _forget(self, chain: Chain) -> None:
        del self._chains[chain.number]
        for one in chain.ends:
            if self._by_end.get((chain.model, one)) is chain:
                del self._by_end[chain.model, one]
        if chain.name is not None and self._by_name.get((chain.model, *chain.name)) is chain:
            del self._by_name[chain.model, *chain.name]
        if chain.step is not None:
            self._by_step.pop(chain.step, None)

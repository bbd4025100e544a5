"""The price of a chain's going on elsewhere (Candidate.chain_s): what is known, put before the chain plan."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from pairproxy.core.chain_plan import Losses, Rest, Site, plan_homes
from pairproxy.core.chains import Chain, ChainTable
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import BLOCK_TOKENS, Candidate, ModelName, Place, Request
from pairproxy.core.nodes import NodeTable
from pairproxy.core.prefixes import size_of
from pairproxy.core.pricing import Pricing
from pairproxy.core.queue import Waiting
from pairproxy.core.running import Running, RunningTable

MOST_PLANNED: Final = 16  # chains that are planned together, the latest ones: a fan-out is seldom wider
OLD_S: Final = 1.0  # after which a plan is made anew though nothing was heard of a chain


class ChainHomes:
    """Keeps the latest plan of one node's chains, and prices candidates by it."""

    def __init__(
        self,
        table: ChainTable,
        pricing: Pricing,
        local: LocalEngines,
        nodes: NodeTable,
        running: RunningTable,
    ) -> None:
        self._table = table
        self._pricing = pricing
        self._local = local
        self._nodes = nodes
        self._running = running
        self._losses: Losses = {}
        self._made = (-1, 0.0)  # of which changes of the table, and when

    def settle(self, queue: Iterable[Waiting], at: float) -> None:
        """Plan the chains whose next step waits, if something has changed."""
        changes, made_at = self._made
        if changes == self._table.changes and at - made_at < OLD_S:
            return
        self._made = (self._table.changes, at)
        waiting: dict[int, Waiting] = {}
        for one in queue:
            chain = self._table.of(one.request.id)
            if chain is not None and len(waiting) < MOST_PLANNED:
                waiting[chain.number] = one
        models = {one.request.model for one in waiting.values()}
        self._losses = {}
        for model in models:
            self._losses.update(self._planned(model, waiting, at))

    def has_plan(self, request: Request) -> bool:
        """Whether a request is a step of a chain that was planned."""
        chain = self._table.of(request.id)
        return chain is not None and bool(self._losses.get(chain.number))

    def priced(self, request: Request, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates of a request with their ``chain_s``."""
        chain = self._table.of(request.id)
        losses = self._losses.get(chain.number) if chain is not None else None
        if not losses:
            return candidates
        worst = max(losses.values())
        return [replace(one, chain_s=losses.get(one.place, worst)) for one in candidates]

    def _planned(self, model: ModelName, waiting: Mapping[int, Waiting], at: float) -> Losses:
        running = {one.request.id: one for one in self._running}
        rests: list[Rest] = []
        steps = set()
        for chain in reversed(self._table.active(at)):
            if chain.model != model or (chain.number not in waiting and len(rests) >= MOST_PLANNED):
                continue
            rest = (
                self._next_step(chain, waiting[chain.number], at)
                if chain.number in waiting
                else self._under_way(chain, running.get(chain.step) if chain.step else None, at)
            )
            if rest is not None:
                rests.append(rest)
                steps.add(chain.step)
        places = {place for rest in rests for place in (rest.home, *rest.reads)}
        others = [one for one in self._running if one.request.id not in steps]
        return plan_homes(rests, self._sites(model, places, others, at))

    def _next_step(self, chain: Chain, waiting: Waiting, at: float) -> Rest | None:
        """A chain whose next step waits here, and may go to any place that can serve it."""
        request, reads, soonest = waiting.request, dict[Place, int](), dict[Place, float]()
        output = self._table.habits.output.value
        for place, state in self._pricing.places(request, waiting.excluded, at):
            cached = self._pricing.prefixes.cached_tokens(request, place) if state.is_loaded else 0
            load_s = 0.0 if state.is_loaded else state.rates.load_s
            reads[place] = request.prompt_tokens - cached + round(load_s * state.rates.prefill)
            soonest[place] = reads[place] / state.rates.prefill + output / state.rates.decode
        if not reads:
            return None
        home = chain.place if chain.place in reads else min(soonest, key=lambda place: soonest[place])
        return self._rest(chain, home, reads=reads, written=0.0)

    def _under_way(self, chain: Chain, running: Running | None, at: float) -> Rest | None:
        """A chain whose step runs, or which pauses."""
        if chain.place is None:
            return None
        if running is None:
            pause_s = max(self._table.habits.think.value - (at - chain.last_at), 0.0)
            return self._rest(chain, chain.place, pause_s=pause_s)
        lengths = self._local.costs.expected_lengths(running.request)
        written = running.written_tokens()
        rest = self._rest(chain, chain.place, work_s=running.left_s(lengths, at)[0], written=written)
        return replace(rest, more=[0]) if self._table.habits.is_last(written) else rest

    def _rest(
        self,
        chain: Chain,
        home: Place,
        *,
        reads: dict[Place, int] | None = None,
        work_s: float = 0.0,
        written: float | None = None,
        pause_s: float = 0.0,
    ) -> Rest:
        habits = self._table.habits
        return Rest(
            number=chain.number,
            home=home,
            reads=reads or {},
            work_s=work_s,
            written=written,
            pause_s=pause_s,
            context=chain.prompt_tokens,
            more=self._table.more_steps(chain),
            output=habits.output.value,
            last_output=habits.last_output.value,
            growth=habits.growth.value,
            think_s=habits.think.value,
        )

    def _sites(self, model: ModelName, places: set[Place], others: list[Running], at: float) -> list[Site]:
        known = self._pricing.known_places(at)
        sites = []
        for place in sorted(places & known.keys(), key=list(known).index):
            slots, _ = known[place]
            busy_s = sum([max(one.remaining_s(at), 0.0) for one in others if one.place == place], 0.0)
            engine = self._nodes.engine(place)
            if engine is not None:
                age_s = at - engine[1]
                busy_s += sum([max(seconds - age_s, 0.0) for seconds in engine[0].frees_in_s])
            rates, room = self._pricing.rates(place, model), self._room(place, model, slots)
            sites.append(Site(place, rates, slots, room, busy_s / slots))
        return sites

    def _room(self, place: Place, model: ModelName, slots: int) -> int:
        """Tokens of prompts that a place keeps, as far as it is known."""
        heard = self._nodes.engine(place)
        report = self._local.get(place.engine) if heard is None else None
        if heard is not None:
            windows = [one.replica.context_tokens for one in heard[0].replicas if one.replica.model == model]
            kind, kept = heard[0].kind, heard[0].cache_tokens
        elif report is not None:
            windows = [one.context_tokens for one, _ in report.replicas if one.model == model]
            kind, kept = report.kind, report.cache_tokens
        else:
            return 0
        return size_of(kind, slots, windows[0] if windows else None, kept).blocks * BLOCK_TOKENS

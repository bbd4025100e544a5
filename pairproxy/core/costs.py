"""How long a request would take: rates and reply lengths, learned from what was really measured.

Rates belong to (engine, model) on this node; other nodes' rates come in their state documents, measured
by themselves. A rate that was never measured is the prior of its kind of engine.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from pairproxy.core.lengths import Lengths, LengthTable
from pairproxy.core.models import EngineId, ModelName, Rates, Request, Usage
from pairproxy.core.speeds import Speed, SpeedFacts, SpeedKey
from pairproxy.core.timing import Timing

PRIORS: dict[str, Rates] = {
    # Published measurements of each kind of engine on a mid-range machine (docs/scheduling.md); only the
    # first request pays for their error.
    "ollama": Rates(prefill=500.0, decode=30.0, beta=0.8, load_s=5.0),
    "lmstudio": Rates(prefill=500.0, decode=30.0, beta=0.15, load_s=5.0),
    "llamacpp": Rates(prefill=500.0, decode=30.0, beta=0.15),
    "openai": Rates(prefill=4000.0, decode=50.0, beta=0.03),
    "embedded": Rates(prefill=120.0, decode=80.0, beta=0.7),  # SmolLM2-135M on one thread, measured
    "paced": Rates(prefill=2000.0, decode=50.0, beta=0.15),
}
_UNKNOWN = PRIORS["ollama"]

MOST_KEPT = 256  # speeds of engines and models that are not in use now: dozens of models in a few versions
MOST_LISTED: Final = 2048  # models that engines ever listed in this life: four engines with 512 models each
MOST_UNLISTED: Final = 64  # models that engines answer for but do not list: llama-server takes any name


class Costs:
    """What this node knows about the speed of its own engines and the length of replies."""

    def __init__(self) -> None:
        self.lengths = LengthTable()
        self.changes = 0  # grows with everything that is learned
        self.lessons = 0  # grows with all that may change a rate
        self._speeds: dict[tuple[EngineId, ModelName], Speed] = {}
        self._keys: OrderedDict[tuple[EngineId, ModelName], SpeedKey] = OrderedDict()
        self._kept: OrderedDict[SpeedKey, SpeedFacts] = OrderedDict()

    def rates(self, engine: EngineId, kind: str, model: ModelName) -> Rates:
        """The rates of a model on an engine of this node: measured where measured, else the prior."""
        prior = PRIORS.get(kind, _UNKNOWN)
        speed = self._speeds.get((engine, model))
        return prior if speed is None else speed.rates(prior)

    def learn(
        self,
        engine: EngineId,
        model: ModelName,
        usage: Usage,
        timing: Timing,
        *,
        kind: str = "",
        is_cold: bool = False,
    ) -> float | None:
        """Take in one finished request on an engine of a kind; returns how fast it was (Speed.learn)."""
        self.changes += 1
        self.lessons += 1
        return self._speed(engine, model).learn(usage, timing, PRIORS.get(kind, _UNKNOWN), is_cold=is_cold)

    def calibrate(self, engine: EngineId, model: ModelName, usage: Usage, company: int) -> None:
        """Take in the sums of ``company`` equal requests with nothing beside them (Speed.calibrate)."""
        self._speed(engine, model).calibrate(usage, company)
        self.changes += 1
        self.lessons += 1

    def _speed(self, engine: EngineId, model: ModelName) -> Speed:
        known = self._speeds.get((engine, model))
        if known is None:
            unlisted = [place for place in self._speeds if place not in self._keys]
            if len(unlisted) >= MOST_UNLISTED:
                del self._speeds[unlisted[0]]
            known = self._speeds[engine, model] = Speed()
        return known

    def may_learn(self, engine: EngineId, model: ModelName, at: float) -> bool:
        """Whether a reply that ended now says more than the last ones did (Speed.may_learn)."""
        speed = self._speeds.get((engine, model))
        return speed is None or speed.may_learn(at)

    def learn_output(self, request: Request, tokens: int) -> None:
        """Take in the length of one reply to a client, wherever it was made; zero says nothing."""
        self.lengths.learn(request, tokens)
        self.changes += 1

    def expected_lengths(self, request: Request) -> Lengths:
        """The lengths of replies to requests like this one; ask it with the request's own limit."""
        return self.lengths.of(request)

    def expected_output(self, request: Request) -> float:
        """Tokens a reply has on average, within the client's limit: prices a choice, and what waits."""
        return self.lengths.of(request).mean(request.max_output_tokens)

    # --- what outlives the daemon -------------------------------------------------------------------------

    def identify(self, key: SpeedKey) -> None:
        """Let what is known of a model on an engine belong to this key.

        Another key than before is another machine to us: it starts from what was kept, else from priors.
        """
        place = (key.engine, key.model)
        before = self._keys.get(place)
        if before == key:
            self._keys.move_to_end(place)
            return
        self.lessons += 1
        if before is not None:
            self._keep(before, self._speeds.pop(place, Speed()).facts())
        self._keys[place] = key
        self._keys.move_to_end(place)
        if len(self._keys) > MOST_LISTED:
            gone, its_key = self._keys.popitem(last=False)
            if (speed := self._speeds.pop(gone, None)) is not None:
                self._keep(its_key, speed.facts())
        kept = self._kept.pop(key, None)
        if kept is not None and place not in self._speeds:
            self._speeds[place] = Speed.of(kept)

    def knows(self, key: SpeedKey) -> bool:
        """Whether both rates were measured under this key, now or before."""
        facts = self._kept.get(key)
        if self._keys.get((key.engine, key.model)) == key:
            facts = self._speeds.get((key.engine, key.model), Speed()).facts()
        return facts is not None and facts.prefill is not None and facts.decode is not None

    def speeds(self) -> dict[SpeedKey, SpeedFacts]:
        """All that was learned of speeds and has a key, for whoever keeps it."""
        now = {key: self._speeds[place].facts() for place, key in self._keys.items() if place in self._speeds}
        return {**self._kept, **now}

    def restore(self, speeds: Iterable[tuple[SpeedKey, SpeedFacts]]) -> None:
        """Take back what was kept, before the engines are told of; the latest last."""
        for key, facts in speeds:
            self._keep(key, facts)

    def _keep(self, key: SpeedKey, facts: SpeedFacts) -> None:
        self._kept[key] = facts
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

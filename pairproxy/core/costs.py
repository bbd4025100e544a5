"""How long a request would take: rates and reply lengths, learned from what was really measured.

Rates belong to (engine, model) on this node; other nodes' rates come in their state documents, measured
by themselves. A rate that was never measured is the prior of its kind of engine.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from pairproxy.core.models import EngineId, ModelName, Rates, Usage

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

LEARNING_WEIGHT = 0.2  # of one full-sized sample in the running mean: follows a change within ten replies
FULL_PREFILL_TOKENS = 256  # fewer are dominated by fixed costs and count for less
MIN_DECODE_TOKENS = 8  # fewer say more about the clock than about the engine
MIN_PREFILL_TOKENS = 16
PROOF_TOKENS = 64  # read anew: fewer than a calibration's say too little to replace what was learned
CONFIRMS_TIMES = 1.15  # of what was measured: the noise of one sample
PLAUSIBLE_TIMES = 20.0  # of the prior: the fastest cards read about that much faster than the slowest
PRIOR_OUTPUT_TOKENS = 300.0  # median reply length of chat traffic
PRIOR_SPREAD = 1.0  # standard deviation of the logarithm of reply lengths
ONE_IN_TWENTY = 1.645  # standard deviations above the mean of a normal distribution
REMEMBERED_OUTPUTS = 200  # per model


@dataclass(slots=True)
class _Rate:
    """A running mean in log space: a factor of two up weighs as much as a factor of two down."""

    log_mean: float = 0.0
    is_measured: bool = False
    is_proven: bool = False  # by a sample that leaves nothing open
    log_ceiling: float = 0.0  # the mean by the last such sample; before one, the fastest that is believed

    def prove(self, value: float, weight: float, *, is_enough: bool) -> None:
        """Take in a sample that leaves nothing open; one that ``is_enough`` replaces unproven ones."""
        if is_enough and not self.is_proven:
            self.is_measured = False
        self.is_proven = self.is_proven or is_enough or not self.is_measured
        self.learn(value, weight)
        self.log_ceiling = self.log_mean

    def lower(self, value: float, weight: float, prior: float) -> None:
        """Take in a sample that may look faster than it was: it can lower or confirm, not raise.

        The bound is not the mean itself, which one slow sample would lower for good.
        """
        if not self.is_measured:
            if value > PLAUSIBLE_TIMES * prior:
                return
            self.log_ceiling = math.log(max(value, prior))
        elif math.log(value) > self.log_ceiling + math.log(CONFIRMS_TIMES):
            return
        self.learn(value, weight)

    def learn(self, value: float, weight: float) -> None:
        if not self.is_measured:
            self.log_mean, self.is_measured = math.log(value), True
        else:
            self.log_mean += weight * (math.log(value) - self.log_mean)

    def value(self, prior: float) -> float:
        return math.exp(self.log_mean) if self.is_measured else prior


@dataclass(slots=True)
class _Speed:
    prefill: _Rate = field(default_factory=_Rate)
    decode: _Rate = field(default_factory=_Rate)
    load: _Rate = field(default_factory=_Rate)


class _Lengths:
    """The last lengths of a model's replies, as a log-normal distribution.

    The prior weighs as much as one of them: the first that is seen may be an odd one, and a few equal ones
    do not pass for certainty.
    """

    def __init__(self) -> None:
        self._seen: deque[int] = deque(maxlen=REMEMBERED_OUTPUTS)
        self.mean, self.long = self._fit()

    def learn(self, tokens: int) -> None:
        self._seen.append(tokens)
        self.mean, self.long = self._fit()

    def _fit(self) -> tuple[float, float]:
        weight = 1 + len(self._seen)
        mean = (PRIOR_OUTPUT_TOKENS + sum(self._seen)) / weight
        logs = [math.log(tokens) for tokens in self._seen]
        middle = (math.log(PRIOR_OUTPUT_TOKENS) + sum(logs)) / weight
        spread_2 = (PRIOR_SPREAD**2 + sum((one - middle) ** 2 for one in logs)) / weight
        return mean, max(mean, math.exp(middle + ONE_IN_TWENTY * math.sqrt(spread_2)))


_NO_LENGTHS = _Lengths()


class Costs:
    """What this node knows about the speed of its own engines and the length of replies."""

    def __init__(self) -> None:
        self._speeds: dict[tuple[EngineId, ModelName], _Speed] = {}
        self._lengths: dict[ModelName, _Lengths] = {}

    def rates(self, engine: EngineId, kind: str, model: ModelName) -> Rates:
        """The rates of a model on an engine of this node: measured where measured, else the prior."""
        prior = PRIORS.get(kind, _UNKNOWN)
        speed = self._speeds.get((engine, model))
        if speed is None:
            return prior
        return Rates(
            prefill=speed.prefill.value(prior.prefill),
            decode=speed.decode.value(prior.decode),
            beta=prior.beta,
            load_s=speed.load.value(prior.load_s),
        )

    def learn(
        self,
        engine: EngineId,
        model: ModelName,
        usage: Usage,
        ttft_s: float,
        alone_s: float,
        *,
        kind: str = "",
    ) -> None:
        """Take in one finished request on an engine of a kind.

        ``ttft_s`` is dispatch to first byte; ``alone_s`` is the decoding time corrected for the company it
        had: the integral of Rates.share(concurrency) from the first byte to the last. Zero: not known.
        A reply that does not say how much of its prompt was cached cannot make the engine faster: a prompt
        that comes a second time is read in no time by any machine.
        """
        speed = self._speeds.setdefault((engine, model), _Speed())
        uncached = (usage.prompt_tokens or 0) - (usage.cached_tokens or 0)
        prefill_s = usage.prefill_s if usage.prefill_s is not None else ttft_s
        if uncached >= MIN_PREFILL_TOKENS and prefill_s > 0:
            weight = LEARNING_WEIGHT * min(1.0, uncached / FULL_PREFILL_TOKENS)
            if usage.cached_tokens is None:
                speed.prefill.lower(uncached / prefill_s, weight, PRIORS.get(kind, _UNKNOWN).prefill)
            else:
                speed.prefill.prove(uncached / prefill_s, weight, is_enough=uncached >= PROOF_TOKENS)
        tokens = usage.output_tokens or 0
        if tokens >= MIN_DECODE_TOKENS and alone_s > 0:
            speed.decode.learn(tokens / alone_s, LEARNING_WEIGHT)
        if usage.load_s is not None and usage.load_s > 0.5:  # less is bookkeeping, not a load
            speed.load.learn(usage.load_s, LEARNING_WEIGHT)

    def learn_output(self, model: ModelName, tokens: int) -> None:
        """Take in the length of one reply to a client, wherever it was made; zero says nothing."""
        if tokens > 0:
            self._lengths.setdefault(model, _Lengths()).learn(tokens)

    def expected_output(self, model: ModelName, limit: int | None) -> float:
        """Tokens a reply has on average, within the client's limit: prices what runs and what waits."""
        return _within(self._lengths.get(model, _NO_LENGTHS).mean, limit)

    def long_output(self, model: ModelName, limit: int | None) -> float:
        """Tokens that only one reply in twenty exceeds, within the client's limit: prices a choice."""
        return _within(self._lengths.get(model, _NO_LENGTHS).long, limit)


def _within(tokens: float, limit: int | None) -> float:
    return tokens if limit is None else min(tokens, float(limit))

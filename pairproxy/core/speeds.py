"""The speed of one replica on one engine of this node: what it learns, and what of it is worth keeping."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pairproxy.core.decode_curve import FULL_TOKENS, MOST_LOG, CurveFacts, DecodeCurve
from pairproxy.core.documents import EngineReport
from pairproxy.core.models import EngineId, ModelName, Rates, Usage
from pairproxy.core.prefill_rate import LEARNING_WEIGHT, PLAUSIBLE_TIMES, PrefillRate, Rate
from pairproxy.core.timing import Timing
from pairproxy.core.values import spell

FULL_PREFILL_TOKENS: Final = 256  # fewer are dominated by fixed costs and count for less
MIN_DECODE_TOKENS: Final = 8  # fewer say more about the clock than about the engine
MIN_PREFILL_TOKENS: Final = 16
PROOF_TOKENS: Final = 64  # read anew: fewer than a calibration's say too little to replace what was learned
PROVEN_REPLIES: Final = 5  # before them nothing is usual: what is slow is our own guess
USUAL_PROMPT_TIMES: Final = 2.0  # a prompt longer than that decodes slower for its own reasons
USUAL_PROMPT_WEIGHT: Final = 0.05  # of one reply in the usual length of prompts: the last twenty
LESSONS_PER_S: Final = 50  # replies that teach: a change is followed within ten, so that more only cost time
MIN_LOAD_S: Final = 0.5  # less is bookkeeping, not a load
FASTEST: Final = math.exp(MOST_LOG)  # tokens/s: an engine that tells less time than that mistakes its units


@dataclass(frozen=True, slots=True)
class SpeedKey:
    """What a speed belongs to. A new version of the engine or other content of the model is a new key."""

    engine: EngineId
    kind: str
    version: str
    model: ModelName
    identity: str


def keys_of(report: EngineReport) -> Iterator[SpeedKey]:
    """A key for every replica that an engine lists."""
    for replica, _ in report.replicas:
        yield SpeedKey(report.engine, report.kind, report.version, replica.model, replica.identity)


@dataclass(frozen=True, slots=True)
class RateFacts:
    """A running mean that has been measured."""

    log_mean: float
    is_proven: bool = False
    log_ceiling: float = 0.0

    @property
    def is_possible(self) -> bool:
        """Whether it can have been measured."""
        return abs(self.log_mean) <= MOST_LOG and abs(self.log_ceiling) <= MOST_LOG


@dataclass(frozen=True, slots=True)
class SpeedFacts:
    """What was learned of one replica on one engine. None: never measured."""

    prefill: RateFacts | None = None
    decode: CurveFacts | None = None
    load: RateFacts | None = None

    @property
    def is_possible(self) -> bool:
        """Whether a daemon can have written it."""
        parts = (self.prefill, self.decode, self.load)
        return all(part is None or part.is_possible for part in parts)


spell(SpeedFacts, prefill=RateFacts | None, decode=CurveFacts | None, load=RateFacts | None)


@dataclass(slots=True)
class Speed:
    """All that is learned of one replica on one engine."""

    prefill: PrefillRate = field(default_factory=PrefillRate)
    decode: DecodeCurve = field(default_factory=DecodeCurve)
    load: Rate = field(default_factory=Rate)
    prompts: Rate = field(default_factory=Rate)  # their usual length in tokens
    _rates: tuple[Rates, Rates] | None = None  # by the prior that they were last asked for with
    _second_at: float = -math.inf  # when the second began whose lessons are counted
    _lessons: int = 0

    @classmethod
    def of(cls, facts: SpeedFacts) -> "Speed":
        """Go on from what was kept."""
        speed = cls(decode=DecodeCurve(facts.decode))
        if (kept := facts.prefill) is not None:
            speed.prefill = PrefillRate(kept.log_mean, True, kept.is_proven, kept.log_ceiling)
        if (kept := facts.load) is not None:
            speed.load = Rate(kept.log_mean, True)
        return speed

    def facts(self) -> SpeedFacts:
        """What is worth keeping."""
        prefill, load = self.prefill, self.load
        return SpeedFacts(
            prefill=RateFacts(prefill.log_mean, prefill.is_proven, prefill.log_ceiling)
            if prefill.is_measured
            else None,
            decode=self.decode.facts() if self.decode.replies else None,
            load=RateFacts(load.log_mean) if load.is_measured else None,
        )

    def rates(self, prior: Rates) -> Rates:
        """The rates: measured where measured, else the prior of the engine's kind.

        Asked for every candidate of every request that waits, so they are reckoned once for each lesson.
        """
        if self._rates is None or self._rates[0] is not prior:
            decode, beta = self.decode.rates(prior)
            rates = Rates(self.prefill.value(prior.prefill), decode, beta, self.load.value(prior.load_s))
            self._rates = prior, rates
        return self._rates[1]

    def may_learn(self, at: float) -> bool:
        """Whether a reply that ended now is one of the first LESSONS_PER_S of its second; it is counted."""
        if at - self._second_at >= 1.0:
            self._second_at, self._lessons = at, 0
        self._lessons += 1
        return self._lessons <= LESSONS_PER_S

    def calibrate(self, usage: Usage, company: int) -> None:
        """Take in the sums of ``company`` equal requests that decoded at once, with nothing beside them."""
        if usage.output_tokens and usage.decode_s:
            self._rates = None
            self.decode.calibrate(usage.output_tokens / company, usage.decode_s / company, company)

    def learn(self, usage: Usage, timing: Timing, prior: Rates, *, is_cold: bool) -> float | None:
        """Take in one finished request. ``is_cold``: nothing of its prompt can have been cached.

        A reply that does not say how much of its prompt was cached, and was not cold, cannot make the engine
        faster. Returns how fast it decoded over how fast replies like it usually do; None: nobody can tell.
        """
        self._rates = None
        is_odd = self._is_long(usage) or self.decode.replies < PROVEN_REPLIES
        if usage.prompt_tokens:
            self.prompts.learn(usage.prompt_tokens, USUAL_PROMPT_WEIGHT)
        uncached = (usage.prompt_tokens or 0) - (usage.cached_tokens or 0)
        prefill_s = usage.prefill_s if usage.prefill_s is not None else timing.ttft_s
        prefill_s *= timing.own_part
        if uncached >= MIN_PREFILL_TOKENS and prefill_s > 0:
            weight = LEARNING_WEIGHT * min(1.0, uncached / FULL_PREFILL_TOKENS)
            value = min(uncached / prefill_s, FASTEST)
            is_believed = is_cold and value <= PLAUSIBLE_TIMES * prior.prefill
            if usage.cached_tokens is None and not is_believed:
                self.prefill.lower(value, weight, prior.prefill)
            else:
                self.prefill.prove(value, weight, is_enough=uncached >= PROOF_TOKENS)
        if usage.load_s is not None and usage.load_s > MIN_LOAD_S:
            self.load.learn(usage.load_s)
        tokens, company_s = usage.output_tokens or 0, timing.decoding(usage.decode_s)
        if tokens < MIN_DECODE_TOKENS or not company_s:
            return None
        part = self.decode.learn(tokens, company_s, prior)
        return None if is_odd or tokens < FULL_TOKENS else part

    def _is_long(self, usage: Usage) -> bool:
        """Whether its prompt is longer than usual, and its reply slower for that."""
        longest = USUAL_PROMPT_TIMES * self.prompts.value(0.0)
        return self.prompts.is_measured and (usage.prompt_tokens or 0) > longest

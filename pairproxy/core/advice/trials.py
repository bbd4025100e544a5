"""The recorded run again with one thing otherwise, by the production scheduler on a virtual clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pairproxy.core.advice.evidence import Conclusion, Elsewhere, Evidence
from pairproxy.core.advice.words import change
from pairproxy.core.discipline import Finding
from pairproxy.core.models import BLOCK_TOKENS
from pairproxy.core.whatif.recording import RecordedPlace, RecordedRates, RecordedRequest, Recording
from pairproxy.core.whatif.replay import MOST_ERROR, nodes_of, requests_of, served
from pairproxy.core.workload import SimResult

LEAST_GAIN = 0.05  # of the makespan, or of a request's mean time: less is lost in the weather of a day
UNSEEN = 0.005  # of the run: what is told in two digits shows no less
MOST_SLOTS = 64  # of an engine: what vLLM is started with for a desktop card is no more


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it, in seconds. ``hit_rate``: of the prompts' tokens."""

    makespan_s: float
    latency_s: float  # mean
    ttft_s: float  # mean
    hit_rate: float

    def gain(self, base: "Trial") -> float:
        """The part by which it is better than another: of the makespan, or of the mean time if that is more.

        A change that ends the run later is no gain, however soon the others are done.
        """
        of_run = 1.0 - self.makespan_s / base.makespan_s
        of_request = 1.0 - self.latency_s / base.latency_s
        return max(of_run, of_request) if of_run > -LEAST_GAIN else of_run

    def gains(self, base: "Trial") -> bool:
        """Whether that is worth a person's work."""
        return self.gain(base) >= LEAST_GAIN

    def effect(self, base: "Trial") -> str:
        """What it changes, in words: the run, or a request where only that gains."""
        of_run = 1.0 - self.makespan_s / base.makespan_s
        if abs(of_run) < UNSEEN and abs(self.gain(base)) < UNSEEN:
            return "the run would end no sooner"
        if of_run < LEAST_GAIN <= self.gain(base):
            return f"a request would take {change(base.latency_s, self.latency_s)} on average"
        return f"the run would end in {change(base.makespan_s, self.makespan_s)}"

    def concluded(self, lever: str, base: "Trial", sentence: str, numbers: Mapping[str, float]) -> Conclusion:
        """The conclusion of this trial, with its own numbers beside those that led to it."""
        own = {
            "simulated_before_s": base.makespan_s,
            "simulated_after_s": self.makespan_s,
            "request_before_s": base.latency_s,
            "request_after_s": self.latency_s,
            "ttft_before_s": base.ttft_s,
            "ttft_after_s": self.ttft_s,
        }
        gain_s = base.makespan_s - self.makespan_s
        return Conclusion(lever, self.gains(base), sentence, {**numbers, **own}, gain_s, self.gain(base))


class Trials:
    """Changes of one run. Each is simulated once; after ``is_over()`` no other is begun.

    ``base`` is the run as it was, None if it cannot be replayed; ``problem`` says then, or where the model is
    too far off to be believed, why nothing is simulated.
    """

    def __init__(self, evidence: Evidence, is_over: Callable[[], bool] = lambda: False) -> None:
        self._recording = evidence.recording
        self._is_over = is_over
        self.problem = ""
        self.is_cut = False  # whether a trial was left out
        self.base: Trial | None = None
        self.error: float | None = (
            None  # part of the makespan by which the simulation of what happened is off
        )
        self.base = self._simulated(self._recording)
        if self.base is None:
            self.problem = "The run cannot be replayed, so no gain is simulated: no reply counted its tokens."
            return
        self.error = abs(self.base.makespan_s / self._recording.makespan_s - 1.0)
        if self.error > MOST_ERROR:
            self.problem = (
                f"The simulation is off by {self.error:.0%} on the run as it happened, so no gain is told. "
                "Speeds that are not measured yet, or somebody who used the machines, make it so."
            )
            self.base = None

    def slots(self, times: int) -> Trial | None:
        """So many times as many on each engine."""
        more = [
            replace(place, slots=min(place.slots * times, MOST_SLOTS)) for place in self._recording.places
        ]
        return self._tried(replace(self._recording, places=tuple(more)))

    def node_more(self, like: str) -> Trial | None:
        """Another machine like one that is there, by its id."""
        new = [
            replace(place, node="another machine") for place in self._recording.places if place.node == like
        ]
        return self._tried(replace(self._recording, places=(*self._recording.places, *new)))

    def node_less(self, node: str) -> Trial | None:
        """Without one; None too if nobody else has its models."""
        left = tuple(place for place in self._recording.places if place.node != node)
        return self._tried(replace(self._recording, places=left))

    def models_at(self, idle: Elsewhere, like: str) -> Trial | None:
        """The run's models on a node that lacks them, ``idle.times`` as fast as at ``like``."""
        held = next(place for place in self._recording.places if place.node == like)
        rates = {model: _times(one, idle.times or 1.0) for model, one in held.rates.items()}
        new = RecordedPlace(idle.node, "new", held.kind, max(idle.slots, 1), rates, held.cache_tokens)
        return self._tried(replace(self._recording, places=(*self._recording.places, new)))

    def policy(self, name: str) -> Trial | None:
        """Another one."""
        return self._tried(replace(self._recording, policy=name))

    def mended(self, findings: Sequence[tuple[Finding, tuple[int, ...]]]) -> Trial | None:
        """What changes stands at the end of these clients' prompts, so that what is the same comes first."""
        requests = [*self._recording.requests]
        for finding, theirs in findings:
            for index in theirs[1:]:
                requests[index] = _shared(requests, index, theirs[0], finding.lost_tokens)
        return self._tried(replace(self._recording, requests=tuple(requests)))

    def faster(self, *, prefill: float = 1.0, decode: float = 1.0) -> Trial | None:
        """All engines read or write so many times as fast."""
        places = tuple(
            replace(
                place,
                rates={
                    model: replace(
                        one,
                        prefill_tokens_per_s=one.prefill_tokens_per_s * prefill,
                        decode_tokens_per_s=one.decode_tokens_per_s * decode,
                    )
                    for model, one in place.rates.items()
                },
            )
            for place in self._recording.places
        )
        return self._tried(replace(self._recording, places=places))

    def _tried(self, recording: Recording) -> Trial | None:
        if self.base is None:
            return None
        if self._is_over():
            self.is_cut = True
            return None
        return self._simulated(recording)

    def _simulated(self, recording: Recording) -> Trial | None:
        if not recording.requests or recording.makespan_s <= 0.0:
            return None
        try:
            nodes = nodes_of(recording.places, recording.node)
            return trial_of(served(nodes, requests_of(recording), recording.policy))
        except ValueError:  # a request that would be served nowhere
            return None


def trial_of(result: SimResult) -> Trial:
    """What came of a simulation."""
    ttfts = [ttft for ttft in result.ttfts_s if ttft is not None]
    return Trial(
        makespan_s=result.makespan_s,
        latency_s=sum(record.latency_s for record in result.records) / len(result.records),
        ttft_s=sum(ttfts) / max(len(ttfts), 1),
        hit_rate=result.hit_rate,
    )


def _shared(requests: Sequence[RecordedRequest], index: int, first: int, lost_tokens: int) -> RecordedRequest:
    """A request whose prompt begins like that of another one for as long as they have text in common."""
    one = requests[index]
    blocks = min(lost_tokens // BLOCK_TOKENS, one.blocks, requests[first].blocks)
    if blocks <= one.shared_blocks:
        return one
    return replace(one, shared_blocks=blocks, shared_with=first)


def _times(rates: RecordedRates, by: float) -> RecordedRates:
    return replace(
        rates,
        prefill_tokens_per_s=rates.prefill_tokens_per_s * by,
        decode_tokens_per_s=rates.decode_tokens_per_s * by,
    )

"""The recorded run again with one thing otherwise, by the production scheduler on a virtual clock."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pairproxy.core.advice.evidence import Elsewhere, Evidence
from pairproxy.core.advice.flowing import flow
from pairproxy.core.advice.trial import HAIR, Trial, trial_of
from pairproxy.core.discipline import Finding
from pairproxy.core.models import BLOCK_TOKENS
from pairproxy.core.whatif.recording import RecordedPlace, RecordedRates, RecordedRequest, Recording
from pairproxy.core.whatif.replay import MOST_ERROR, nodes_of, requests_of, served

MOST_WORK = 300  # requests x places that the scheduler is simulated for: half a second or so a trial
MOST_SLOTS = 64  # of an engine: what vLLM is started with for a desktop card is no more


class Trials:
    """Changes of one run. Each is simulated once, and what gains twice more, with some engines a HAIR faster
    and the others slower: where a choice of the scheduler hangs on that, it is said. After ``is_over()`` no
    other is begun.

    ``base`` is the run as it was, None if it cannot be replayed; ``problem`` says then, or where the model is
    too far off to be believed, why nothing is simulated. ``is_rough``: it is so large that the scheduler is
    left out of the simulation (core.advice.flowing).
    """

    def __init__(self, evidence: Evidence, is_over: Callable[[], bool] = lambda: False) -> None:
        self._recording = evidence.recording
        self._is_over = is_over
        self.problem = ""
        self.is_rough = evidence.requests * len(self._recording.places) > MOST_WORK
        self.is_cut = False  # whether a trial was left out
        self.base: Trial | None = None
        self.error: float | None = (
            None  # part of the makespan by which the simulation of what happened is off
        )
        self.base = self._simulated(self._recording)
        if self.base is None:
            why = _why_not(self._recording)
            self.problem = f"The run cannot be replayed, so no gain is simulated: {why}."
            return
        self.error = abs(self.base.makespan_s / self._recording.makespan_s - 1.0)
        self.base = replace(self.base, error=self.error)
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

    def warm(self) -> Trial | None:
        """All models in memory when it begins; None too if they were."""
        if all(place.is_loaded for place in self._recording.places):
            return None
        places = tuple(replace(place, is_loaded=True) for place in self._recording.places)
        return self._tried(replace(self._recording, places=places))

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

    def everywhere(self, model: str) -> Trial | None:
        """A model that one node has on all others: as much faster there as another model that both have."""
        held = next(place for place in self._recording.places if model in place.rates)
        places = []
        for place in self._recording.places:
            times = [
                one.decode_tokens_per_s / held.rates[name].decode_tokens_per_s
                for name, one in place.rates.items()
                if name in held.rates
            ]
            there = _times(held.rates[model], sum(times) / len(times) if times else 1.0)
            is_other = place.node != held.node
            places.append(replace(place, rates={**place.rates, model: there}) if is_other else place)
        return self._tried(replace(self._recording, places=tuple(places)))

    def policy(self, name: str) -> Trial | None:
        """Another one; None for a run that is too large for the scheduler to be simulated."""
        if self.is_rough:
            return None
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
        trial = self._simulated(recording)
        if trial is None or self.is_rough or len(recording.places) < 2 or not trial.gains(self.base):
            return trial
        return self._checked(trial, self.base, recording)

    def _checked(self, trial: Trial, base: Trial, recording: Recording) -> Trial:
        """The trial, with what else may come of it where that is more than the speeds explain."""
        least = trial
        for by in (HAIR, -HAIR):
            if self._is_over():
                self.is_cut = True
                break
            other = self._simulated(_nudged(recording, by))
            if other is not None and other.gain(base) < least.gain(base):
                least = other
        hangs = trial.gain(base) - least.gain(base) > 2 * HAIR
        return replace(trial, least=least) if hangs else trial

    def _simulated(self, recording: Recording) -> Trial | None:
        if not recording.requests or recording.makespan_s <= 0.0:
            return None
        try:
            if self.is_rough:
                return flow(recording)
            nodes = nodes_of(recording.places, recording.node)
            return trial_of(served(nodes, requests_of(recording), recording.policy))
        except ValueError:  # a request that would be served nowhere
            return None


def _why_not(recording: Recording) -> str:
    listed = {model for place in recording.places for model in place.rates}
    models = {one.model for one in recording.requests}
    if models - listed or not recording.places:
        return "no node lists its model" if len(models) < 2 else "no node lists one of its models"
    return "no reply counted its tokens"


def _shared(requests: Sequence[RecordedRequest], index: int, first: int, lost_tokens: int) -> RecordedRequest:
    """A request whose prompt begins like that of another one for as long as they have text in common."""
    one = requests[index]
    blocks = min(lost_tokens // BLOCK_TOKENS, one.blocks, requests[first].blocks)
    if blocks <= one.shared_blocks:
        return one
    return replace(one, shared_blocks=blocks, shared_with=first)


def _nudged(recording: Recording, by: float) -> Recording:
    """Every other engine faster by this part, those between as much slower."""
    places = []
    for index, place in enumerate(recording.places):
        times = 1.0 - by if index % 2 else 1.0 + by
        places.append(replace(place, rates={model: _times(one, times) for model, one in place.rates.items()}))
    return replace(recording, places=tuple(places))


def _times(rates: RecordedRates, by: float) -> RecordedRates:
    return replace(
        rates,
        prefill_tokens_per_s=rates.prefill_tokens_per_s * by,
        decode_tokens_per_s=rates.decode_tokens_per_s * by,
    )

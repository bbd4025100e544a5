"""A large run again without the scheduler: first come, first served, where it would be done soonest now.

The production scheduler takes about two milliseconds for each request and place of a simulation, which is
minutes for a thousand requests on sixteen nodes. This takes a second. It knows nothing of policies, of what
others' caches hold, or of waiting for a faster node; whether that matters is seen from how far it is off on
the run as it was.
"""

import heapq
from collections import deque

from pairproxy.core.advice.trial import Trial
from pairproxy.core.models import AttemptId, EngineId, ModelName, NodeId, Place, Rates, RequestId
from pairproxy.core.simulated_gpu import Phase, SimulatedGpu
from pairproxy.core.whatif.recording import RecordedPlace, Recording
from pairproxy.core.whatif.replay import requests_of
from pairproxy.core.workload import SimRequest


def flow(recording: Recording) -> Trial:
    """What comes of it. Raises ValueError if a request has no place, or shares what cannot be."""
    return _Flow(recording).run()


class _Flow:
    def __init__(self, recording: Recording) -> None:
        self._requests = requests_of(recording)
        self._rates = {_name(one): _rates(one) for one in recording.places}
        self._slots = {_name(one): one.slots for one in recording.places}
        self._gpus = {
            _name(one): SimulatedGpu(one.slots, one.cache_tokens or None) for one in recording.places
        }
        held = {model for rates in self._rates.values() for model in rates}
        if not {one.model for one in self._requests} <= held:
            raise ValueError("No node would have a model of the run.")
        self._arrived: list[float] = [0.0] * len(self._requests)
        self._first: list[float] = [0.0] * len(self._requests)
        self._ended: list[float] = [0.0] * len(self._requests)
        self._cached = 0
        self._queues: dict[ModelName, deque[int]] = {one.model: deque() for one in self._requests}
        self._to_come: list[tuple[float, int]] = []
        self._followers: dict[int, list[int]] = {}
        self._to_end = [len(one.waits_for) for one in self._requests]  # of those that it follows

    def run(self) -> Trial:
        for index, one in enumerate(self._requests):
            if not one.waits_for:
                heapq.heappush(self._to_come, (one.at, index))
            for before in one.waits_for:
                self._followers.setdefault(before, []).append(index)
        while (at := self._next()) is not None:
            self._advance(at)
            while self._to_come and self._to_come[0][0] <= at:
                at_s, index = heapq.heappop(self._to_come)
                self._arrived[index] = at_s
                self._queues[self._requests[index].model].append(index)
            while self._begin_one(at):
                pass
        count = len(self._requests)
        return Trial(
            makespan_s=max(self._ended) - min(self._arrived),
            latency_s=(sum(self._ended) - sum(self._arrived)) / count,
            ttft_s=(sum(self._first) - sum(self._arrived)) / count,
            hit_rate=self._cached / max(sum(one.prompt_tokens for one in self._requests), 1),
        )

    def _next(self) -> float | None:
        """When something happens next; None: never again."""
        changes = [change for gpu in self._gpus.values() if (change := gpu.next_change()) is not None]
        return min([*changes, *(at for at, _ in self._to_come[:1])], default=None)

    def _advance(self, at: float) -> None:
        for gpu in self._gpus.values():
            for reached in gpu.advance(at):
                index = int(reached.attempt.request)
                if reached.phase is Phase.LOAD:
                    self._cached += reached.cached_tokens
                elif reached.phase is Phase.PREFILL:
                    self._first[index] = reached.at
                else:
                    self._ended[index] = reached.at
                    self._end(index)

    def _end(self, index: int) -> None:
        """Let those come that waited for this one, and now for no other."""
        for follower in self._followers.get(index, ()):
            self._to_end[follower] -= 1
            if not self._to_end[follower]:
                due_s = self._ended[index] + self._requests[follower].think_s
                heapq.heappush(self._to_come, (due_s, follower))

    def _begin_one(self, at: float) -> bool:
        """Begin the request that waits longest of those that can begin; False: none can."""
        for queue in sorted(filter(None, self._queues.values()), key=lambda one: self._arrived[one[0]]):
            one = self._requests[queue[0]]
            free = [
                place
                for place, rates in self._rates.items()
                if one.model in rates and self._gpus[place].in_flight < self._slots[place]
            ]
            if free:
                place = min(free, key=lambda place: self._seconds(one, place))
                index = queue.popleft()
                rates = self._rates[place][one.model]
                self._gpus[place].start(
                    at, AttemptId(RequestId(str(index)), 1), one.model, rates,
                    one.prompt_tokens, one.output_tokens, one.blocks, one.reply_blocks,
                )  # fmt: skip
                return True
        return False

    def _seconds(self, one: SimRequest, place: Place) -> float:
        rates = self._rates[place][one.model]
        share = rates.share(self._gpus[place].in_flight + 1)
        return one.prompt_tokens / rates.prefill + one.output_tokens / (rates.decode * share)


def _name(place: RecordedPlace) -> Place:
    return Place(NodeId(place.node), EngineId(place.engine))


def _rates(place: RecordedPlace) -> dict[ModelName, Rates]:
    """As far as its models were in memory, loading takes no time."""
    return {
        ModelName(model): Rates(
            one.prefill_tokens_per_s,
            one.decode_tokens_per_s,
            one.beta,
            0.0 if place.is_loaded else one.load_s,
        )
        for model, one in place.rates.items()
    }

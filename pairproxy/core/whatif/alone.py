"""The modelled T1 of a recorded run: what if one node had done it alone.

Each request is replayed with the tokens it really had, on a GPU with the speeds the node is known to have, in
the order of arrival, at most as many at once as is best there. It arrives when it did, or as long after the
reply it follows as it did. Where the prompts' blocks are known the node has its own prefix cache; else what
the run found in caches counts as found: one node alone might have found more or less.
"""

import heapq
from collections import deque
from collections.abc import Mapping, Sequence

from pairproxy.core.accounting.alone import T1
from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.works import Places
from pairproxy.core.models import ModelName, NodeId, Place
from pairproxy.core.simulated_gpu import Phase, SimulatedGpu
from pairproxy.core.whatif.company import as_in_the_run, model_error
from pairproxy.core.whatif.pieces import Piece, pieces_of

Caches = Mapping[Place, int]
"""The tokens that the prefix cache of each place holds; a place that is left out has none."""
MOST_TRIED = 1024  # requests x slots: above, fewer at once than the slots are not tried: that takes seconds


def best_single_node(run: Run, places: Places, caches: Caches | None = None) -> T1 | None:
    """T1 on the node that would have done the run soonest alone.

    None if no node can be modelled: none holds all models of the run, or a reply that was served said
    nothing of its tokens.
    """
    modelled = modelled_t1s(run, places, caches)
    return min(modelled.values(), key=lambda t1: t1.value_s, default=None)


def modelled_t1s(run: Run, places: Places, caches: Caches | None = None) -> dict[NodeId, T1]:
    """T1 on each node that could have done the run alone, on all of its engines or its best one.

    The rates of a place are corrected by what its requests took in the run; ``model_error`` is what the same
    model is off by on the run as it happened even so. A node that had to load a model in it
    would have had to do so alone as well.
    """
    pieces = pieces_of(run)
    if not pieces:
        return {}
    fitted = as_in_the_run(pieces, places)
    error = model_error(pieces, fitted)
    found = {}
    for node in dict.fromkeys(place.node for place in places):
        value_s = _makespan_s(pieces, node, fitted, caches or {})
        if value_s is not None:
            load_s = max((piece.load_s for piece in pieces if piece.place.node == node), default=0.0)
            found[node] = T1(value_s + load_s, "modelled", node, error)
    return found


def _makespan_s(pieces: Sequence[Piece], node: NodeId, places: Places, caches: Caches) -> float | None:
    own = {place: known for place, known in places.items() if place.node == node}
    choices = [own, *({place: known} for place, known in own.items())] if len(own) > 1 else [own]
    able = [
        fewer
        for choice in choices
        if all(any(piece.model in rates for _, rates in choice.values()) for piece in pieces)
        for fewer in _with_fewer_slots(choice, len(pieces))
    ]
    return min((_Replay(choice, caches).makespan_s(pieces) for choice in able), default=None)


def _with_fewer_slots(places: Places, requests: int) -> list[Places]:
    """The same with half as many at once, and half of that: slots can slow each other, or share a cache."""
    most = max(slots for slots, _ in places.values())
    found = [places]
    while most > 1 and requests * most <= MOST_TRIED:
        most //= 2
        found.append({place: (min(slots, most), rates) for place, (slots, rates) in places.items()})
    return found


class _Replay:
    """Pieces on the GPUs of one node."""

    def __init__(self, places: Places, caches: Caches) -> None:
        self._places = places
        self._caches = caches
        self._gpus = {place: SimulatedGpu(slots, caches.get(place)) for place, (slots, _) in places.items()}
        self._queues: dict[ModelName, deque[Piece]] = {}
        self._to_come: list[tuple[float, int]] = []
        self._ended_at = float("-inf")

    def makespan_s(self, pieces: Sequence[Piece]) -> float:
        """From the first arrival to the last end. Each piece begins once a slot that may have it is free."""
        followers: dict[int, list[int]] = {}
        to_end = [0 if piece.after is None else 1 + len(piece.joins) for piece in pieces]
        for index, piece in enumerate(pieces):
            if piece.after is None:
                heapq.heappush(self._to_come, (piece.arrived_at, index))
            else:
                for before in (piece.after, *piece.joins):
                    followers.setdefault(before, []).append(index)
        indices = {piece.attempt: index for index, piece in enumerate(pieces)}
        while (at := self._next_time()) is not None:
            for gpu in self._gpus.values():
                for reached in gpu.advance(at):
                    if reached.phase is Phase.DECODE:
                        self._ended_at = reached.at
                        for index in followers.get(indices[reached.attempt], ()):
                            to_end[index] -= 1
                            if not to_end[index]:
                                heapq.heappush(self._to_come, (reached.at + pieces[index].think_s, index))
            while self._to_come and self._to_come[0][0] <= at:
                piece = pieces[heapq.heappop(self._to_come)[1]]
                self._queues.setdefault(piece.model, deque()).append(piece)
            while self._begin_one(at):
                pass
        return self._ended_at - pieces[0].arrived_at

    def _begin_one(self, at: float) -> bool:
        """Begin the piece that waits longest of those that can begin; False: none can."""
        heads = [queue for queue in self._queues.values() if queue]
        for queue in sorted(heads, key=lambda queue: queue[0].arrived_at):
            free = [
                place
                for place, (slots, rates) in self._places.items()
                if queue[0].model in rates and self._gpus[place].in_flight < slots
            ]
            if free:
                piece = queue.popleft()
                place = min(free, key=lambda place: piece.seconds(self._places[place][1][piece.model]))
                rates = self._places[place][1][piece.model]
                piece.start(self._gpus[place], at, rates, uses_cache=place in self._caches)
                return True
        return False

    def _next_time(self) -> float | None:
        """When something happens next; None: never again."""
        changes = [change for gpu in self._gpus.values() if (change := gpu.next_change()) is not None]
        return min([*changes, *(time for time, _ in self._to_come[:1])], default=None)

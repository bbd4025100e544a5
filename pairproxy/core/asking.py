"""What this node, as an origin, tells that it wants, and whether it may use a free slot of theirs at once.

A slot belongs to its owner, who may promise it to one of several origins (core.promises). Where it does, a
request is not sent before the promise is heard: until then the state document says that it is wanted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Set
from typing import Final

from pairproxy.core.documents import Wanted
from pairproxy.core.models import ModelName, NodeId, Place, Request
from pairproxy.core.nodes import MAX_WANTED, MAX_WANTED_PREFIXES, NodeTable
from pairproxy.core.promises import PROMISE_S
from pairproxy.core.queue import Waiting
from pairproxy.core.running import RunningTable

PATIENCE_S: Final = PROMISE_S  # an owner that promises nothing for so long is not heard, or does not hear us

Expected = Callable[[Request], float]
"""How many tokens the reply to a request is expected to have."""


class Asking:
    """This node as one of several origins that want the same slots."""

    def __init__(self, own: NodeId, nodes: NodeTable, running: RunningTable) -> None:
        self._own = own
        self._nodes = nodes
        self._running = running
        self._asked_at: dict[
            Place, float
        ] = {}  # since when a free slot there is held back for want of a promise
        self._wishes: Counter[tuple[NodeId, ModelName]] = Counter()
        self._sent: Counter[Place] = Counter()

    def begin(self) -> None:
        """The queue is planned anew."""
        if self._wishes:
            self._wishes.clear()
        if self._sent:
            self._sent.clear()

    def may_send(self, place: Place, at: float) -> bool:
        """Whether a request may go now to a free slot; it is taken as sent then."""
        engine = self._nodes.engine(place) if place.node != self._own else None
        if engine is None or not engine[0].asks:
            return True
        state, heard_at = engine
        unseen = self._running.count(place) - state.yours  # sent, and not in that document yet
        age_s = at - heard_at
        promised = sum(one.origin == self._own and one.for_s > age_s for one in state.promises)
        is_mine = promised > max(unseen, 0) + self._sent[place]
        if not is_mine and at < self._asked_at.setdefault(place, at) + PATIENCE_S:
            return False
        self._sent[place] += 1
        self._asked_at.pop(place, None)
        return True

    def wish(self, place: Place, request: Request) -> None:
        """A request would go there, but waits: for a slot, or for a promise."""
        if place.node != self._own:
            self._wishes[place.node, request.model] += 1

    def end(self, held: Iterable[Place]) -> None:
        """The queue is planned; free slots were held back at these places only."""
        if self._asked_at:
            there = set(held)
            self._asked_at = {place: since for place, since in self._asked_at.items() if place in there}

    @property
    def places(self) -> Set[Place]:
        """Where a free slot is wanted and not promised yet."""
        return self._asked_at.keys()

    def asked(self, at: float) -> set[NodeId]:
        """Nodes of which a slot is wanted since just now: they should hear it at once."""
        return {place.node for place, since in self._asked_at.items() if since == at}

    def next_end(self, at: float) -> float | None:
        """When patience with the next owner ends."""
        ends = (since + PATIENCE_S for since in self._asked_at.values())
        return min((end for end in ends if end > at), default=None)

    def wanted(
        self, queue: Iterable[Waiting], reader: NodeId, expected: Expected, at: float
    ) -> tuple[Wanted, ...]:
        """What waits here, by model, as the state document for ``reader`` says it; oldest first, bounded."""
        waiting: dict[ModelName, list[Waiting]] = {}
        for one in queue:
            if not one.request.local_only and one.request.stays is None:
                waiting.setdefault(one.request.model, []).append(one)
        return tuple(
            Wanted(
                model=model,
                count=len(ones),
                prefill_tokens=float(sum(one.request.prompt_tokens for one in ones)),
                decode_tokens=sum([expected(one.request) for one in ones]),
                oldest_age_s=max(at - one.arrived_at for one in ones),
                prefixes=tuple(
                    one.request.prefix[len(one.request.prefix) // 2]
                    for one in ones[:MAX_WANTED_PREFIXES]
                    if one.request.prefix
                ),
                yours=min(self._wishes[reader, model], len(ones)),
            )
            for model, ones in [*waiting.items()][:MAX_WANTED]
        )

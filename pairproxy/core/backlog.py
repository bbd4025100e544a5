"""What waits at other origins, as far as it will take slots before a request of this node gets one.

Slots that several origins want go round among them (core.promises). So before each request of its own queue
this node reckons with one of every other origin's. They are anonymous: as long as the mean of what its state
document tells, and wherever it would be done first by what is known here. One that could start now is left
out: it has its slot in a moment, or does not want this one.
"""

from collections.abc import Mapping

from pairproxy.core.documents import ReplicaState, Wanted
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import Candidate, ModelName, Place
from pairproxy.core.nodes import NodeTable
from pairproxy.core.plan import Occupancy, price

MOST = (
    32  # requests of others that one plan reckons with: the next ones; each costs as much as one of our own
)


class Backlog:
    """The other origins' turns in one plan."""

    def __init__(self, local: LocalEngines, nodes: NodeTable) -> None:
        self._local = local
        self._nodes = nodes
        self._waiting: list[list[tuple[Wanted, int]]] = []  # by origin: what, and how many of it still
        self._left = 0

    def begin(self, at: float) -> None:
        """A plan begins; what peers wait for that are heard is known."""
        self._waiting = [
            [(wanted, wanted.count) for wanted in document.wanted]
            for document in self._nodes.fresh(at)
            if document.wanted
        ]
        self._left = MOST

    def take_turns(self, occupancies: Mapping[Place, Occupancy], at: float) -> None:
        """Let one request of every other origin have its place."""
        for waiting in self._waiting:
            if waiting and self._left > 0:
                self._left -= 1
                wanted, count = waiting.pop(0)
                if count > 1:
                    waiting.insert(0, (wanted, count - 1))
                self._place(wanted, occupancies, at)

    def _place(self, wanted: Wanted, occupancies: Mapping[Place, Occupancy], at: float) -> None:
        prompt, output = round(wanted.prefill_tokens / wanted.count), wanted.decode_tokens / wanted.count
        candidates: list[Candidate] = [
            price(occupancies[place], state, prompt, output)
            for place, state in self._holders(wanted.model, at)
        ]
        first = min(candidates, key=lambda candidate: candidate.finish_s, default=None)
        if first is not None and not first.is_free:
            occupancies[first.place].take(first.load_s + first.prefill_s, first.alone_s)

    def _holders(self, model: ModelName, at: float) -> list[tuple[Place, ReplicaState]]:
        own = () if self._local.withheld else self._local.places(model, None)
        here = [(place, state) for place, _, state in own]
        return here + [(place, state) for place, _, state in self._nodes.healthy_replicas(model, at)]

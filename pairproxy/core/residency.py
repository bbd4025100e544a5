"""Which models this node made others load, and who uses those that are loaded here.

A client that unloads a model means all of it: also what its requests left in the memory of peers. A peer's
wish to unload counts here only if nobody else would miss the model.
"""

from collections import OrderedDict
from collections.abc import Sequence

from pairproxy.core.commands import Command, Dispatch, Refuse
from pairproxy.core.events import AttemptFinished, Event, NodeForgotten, RequestAbandoned, RequestArrived
from pairproxy.core.models import ModelName, NodeId, Place, Request, RequestId

MODELS = 256  # remembered; an engine holds a handful in memory
MISSED_S = 300.0  # who used a model within this may want it again: Ollama's default keep_alive


class Residency:
    """Hears every event of the dispatcher."""

    def __init__(self, own: NodeId) -> None:
        self.own = own
        self._live: dict[RequestId, Request] = {}
        self._here: dict[RequestId, Request] = {}
        self._there: OrderedDict[ModelName, set[Place]] = OrderedDict()
        self._used: OrderedDict[ModelName, dict[NodeId | None, float]] = OrderedDict()
        # The last model that was used, if by an own client, and who used it.
        self._latest: tuple[ModelName, dict[NodeId | None, float]] | None = None

    def heard(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in what happened and what was decided."""
        if isinstance(event, RequestArrived):
            self._live[event.request.id] = event.request
        elif isinstance(event, AttemptFinished):
            self._end(event.attempt.request, event.at)
        elif isinstance(event, RequestAbandoned):
            self._end(event.request, event.at)
        elif isinstance(event, NodeForgotten):
            self._leave(event.node)
        for command in commands:
            if isinstance(command, Dispatch):
                self._begin(command, event.at)
            elif isinstance(command, Refuse):
                self._end(command.request, event.at)

    def places_of(self, model: ModelName) -> tuple[Place, ...]:
        """Where this node sent requests for a model since it was last forgotten; peers' places only."""
        return tuple(sorted(self._there.get(model, ())))

    def forget(self, model: ModelName) -> None:
        """It was unloaded there."""
        self._there.pop(model, None)

    def may_unload(self, model: ModelName, peer: NodeId, at: float) -> bool:
        """Whether nobody would miss a model here: none of its requests runs, nobody else used it lately."""
        if any(request.model == model for request in self._here.values()):
            return False
        users = self._used.get(model, {})
        return all(user == peer or at - last > MISSED_S for user, last in users.items())

    def _leave(self, node: NodeId) -> None:
        """Nothing is sent to a node any more, not even to unload what it holds for us."""
        for model, places in list(self._there.items()):
            places -= {place for place in places if place.node == node}
            if not places:
                del self._there[model]

    def _begin(self, command: Dispatch, at: float) -> None:
        request = self._live.get(command.attempt.request)
        if request is None:
            return
        self._here.pop(request.id, None)
        if command.decision.place.node == self.own:
            self._here[request.id] = request
            self._use(request, at)
            return
        places = self._there.setdefault(request.model, set())
        places.add(command.decision.place)
        self._there.move_to_end(request.model)
        if len(self._there) > MODELS:
            self._there.popitem(last=False)

    def _end(self, request_id: RequestId, at: float) -> None:
        self._live.pop(request_id, None)
        request = self._here.pop(request_id, None)
        if request is not None:
            self._use(request, at)

    def _use(self, request: Request, at: float) -> None:
        latest, is_own = self._latest, request.origin is None
        if is_own and latest is not None and latest[0] == request.model and len(latest[1]) == 1:
            latest[1][None] = at  # as nearly always: nobody else used any model since
            return
        users = self._used.setdefault(request.model, {})
        users.pop(request.origin, None)
        users[request.origin] = at
        while at - next(iter(users.values())) > MISSED_S:  # the longest ago first
            del users[next(iter(users))]
        self._used.move_to_end(request.model)
        if len(self._used) > MODELS:
            self._used.popitem(last=False)
        self._latest = (request.model, users) if is_own else None

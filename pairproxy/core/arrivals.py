"""What becomes of a request that arrives: it waits here, or runs here as a guest at once, or is refused."""

from collections import OrderedDict
from typing import Final

from pairproxy.core.errors import PairproxyError, QueueFull, SlotsTaken
from pairproxy.core.events import RequestArrived
from pairproxy.core.knowledge import Knowledge, stopping
from pairproxy.core.models import ModelName, NodeId, RequestId
from pairproxy.core.planner import Placed, no_such_model
from pairproxy.core.queue import Waiting

SEEN_S: Final = 120.0  # how long an attempt may be under way on a network, copies of it included
MOST_ORIGINS = 256  # peers remembered so; more than anybody pairs, and those forgotten again are among them
MOST_SEEN: Final = 4096  # attempts of one peer in that time; an honest one sends a few a second


class Guests:
    """Which attempts of peers were here, so that a copy that comes late is not served again.

    A peer's own attempts are all that its haste can push out.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[NodeId, OrderedDict[RequestId, float]] = OrderedDict()

    def is_new(self, origin: NodeId, attempt: RequestId, at: float) -> bool:
        """Whether it is seen for the first time within SEEN_S; it is seen then."""
        seen = self._seen.setdefault(origin, OrderedDict())
        self._seen.move_to_end(origin)
        if len(self._seen) > MOST_ORIGINS:
            self._seen.popitem(last=False)  # the longest silent
        while seen and (at - next(iter(seen.values())) >= SEEN_S or len(seen) > MOST_SEEN):
            seen.popitem(last=False)
        if attempt in seen:
            return False
        seen[attempt] = at
        return True


class Arrivals:
    """Judges what arrives. A client's request may wait in the queue, a peer's may not."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knows = knowledge
        self._guests = Guests()

    def take_in(self, event: RequestArrived) -> Placed | PairproxyError | None:
        """Queue a client's request (None) or place a peer's; or answer why neither can be."""
        knows = self._knows
        request = knows.kept_here(event.request)
        waiting = Waiting(request, event.at)
        if knows.is_here(request.id):
            return SlotsTaken("This request is here already.")
        if request.origin is not None and not self._guests.is_new(request.origin, request.id, event.at):
            return SlotsTaken("This attempt was here already.")
        if knows.is_draining:
            return stopping()
        if request.origin is not None:
            return self._refused(request.origin, request.model) or knows.planner.admit(waiting, event.at)
        pricing = knows.pricing
        pricing.holders.hold()  # what is asked here the plan will ask again
        if not pricing.places(request, (), event.at) and not pricing.is_known(request):
            return no_such_model(request.model)
        if len(knows.queue) >= knows.rules.queue_limit:
            full = f"{len(knows.queue)} requests are waiting already; try again in a moment."
            return QueueFull(full, retry_after_s=knows.retry_after(event.at))
        knows.queue.append(waiting)
        knows.chains.arrived(request, event.at)
        return None

    def _refused(self, peer: NodeId, model: ModelName) -> PairproxyError | None:
        """Why a peer may not have this; models that it may not use do not exist for it."""
        if not self._knows.rights.may_use(peer, model):
            return no_such_model(model)
        if self._knows.local.withheld:
            return SlotsTaken("This node offers no slot to others at present.")
        if self._knows.slots_left(peer) == 0:
            return SlotsTaken("You hold all slots of this node that you may.")
        return None

"""All that one node knows about itself, its peers and its requests: what the parts of the scheduler share."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from pairproxy.core.asking import Asking
from pairproxy.core.avoidance import Avoidance
from pairproxy.core.chain_homes import ChainHomes
from pairproxy.core.chains import ChainTable
from pairproxy.core.costs import Costs
from pairproxy.core.discipline import Discipline
from pairproxy.core.errors import Draining
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import ModelName, NodeId, Request, RequestId
from pairproxy.core.nodes import NodeTable
from pairproxy.core.planner import Planner
from pairproxy.core.pricing import Pricing
from pairproxy.core.promises import PromiseBook
from pairproxy.core.queue import RequestQueue, Waiting
from pairproxy.core.replicas import matches
from pairproxy.core.rights import RightsTable
from pairproxy.core.rules import Rules
from pairproxy.core.running import RunningTable


class Knowledge:
    """The state of one scheduler. Only what Scheduler.handle() calls may change it."""

    def __init__(self, own: NodeId, rules: Rules, random: Random | None = None) -> None:
        self.own = own
        self.rules = rules
        self.local = LocalEngines(own, Costs())
        self.nodes = NodeTable(rules.stale_s)
        self.running = RunningTable()
        self.avoidance = Avoidance()
        self.rights = RightsTable()
        self.promises = PromiseBook()
        self.asking = Asking(own, self.nodes, self.running)
        self.pricing = Pricing(
            self.local, self.nodes, self.running, self.avoidance, self.promises, is_rescued=rules.is_rescuing
        )
        self.chains = ChainTable()
        homes = ChainHomes(self.chains, self.pricing, self.local, self.nodes, self.running)
        self.planner = Planner(
            rules,
            self.pricing,
            self.asking,
            homes,
            random or Random(own),
        )
        self.queue = RequestQueue(rules.queue_timeout_s, self.local.costs.expected_output)
        self.discipline = Discipline()
        self.served: dict[RequestId, Waiting] = {}  # dispatched, not over
        self.is_draining = False
        self.is_alone = True
        """Whether there is one place at most: what runs can be done nowhere else."""

    def follow(self, rules: Rules) -> None:
        """Go by other rules from now on; what runs goes on, what waits is planned by them."""
        self.rules = rules
        self.nodes.stale_s = rules.stale_s
        self.pricing.is_rescued = rules.is_rescuing
        self.planner.follow(rules)
        self.queue.let_wait(rules.queue_timeout_s)
        # A model may have become one that never leaves this machine, also for who is to be sent again.
        for waiting in (*self.queue, *self.served.values()):
            waiting.request = self.kept_here(waiting.request)

    def kept_here(self, request: Request) -> Request:
        """The request, marked if the rules let it run on this node only."""
        rules = self.rules
        if rules.policy == "local-only" or (rules.local_only and matches(request.model, rules.local_only)):
            return replace(request, local_only=True)
        return request

    def count_places(self) -> None:
        """Engines or nodes may have come or gone."""
        self.is_alone = self.nodes.is_empty and len(self.local.slots()) < 2

    def slots_left(self, peer: NodeId) -> int | None:
        """How many slots of this node a peer may take beside those it holds; None: any number."""
        most = self.rights.slots(peer)
        if most is None:
            return None
        here = (one for one in self.running if one.request.origin == peer)
        return max(most - sum(one.place.node == self.own for one in here), 0)

    def may_know(self, peer: NodeId, model: ModelName) -> bool:
        """Whether a peer may hear of a model that is waited for here: it may use it, or has it itself."""
        return self.rights.may_use(peer, model) or peer in self.nodes.identities(model)

    def has_place(self, waiting: Waiting, at: float) -> bool:
        """Whether any place works, free or not, that the request may still try."""
        return bool(self.pricing.places(waiting.request, waiting.excluded, at))

    def let_go_back(self, waiting: Waiting, at: float) -> bool:
        """Whether only the places are left that a request was taken back from; it may go there again then."""
        if not waiting.left or self.has_place(waiting, at):
            return False
        waiting.go_back()
        return True

    def place_finder(self, at: float) -> Callable[[Waiting], bool]:
        """has_place() for the whole queue at one moment.

        Until the queue is planned: so requests of one kind are looked at once (Holders.hold).
        """
        self.pricing.holders.hold()
        return lambda waiting: self.has_place(waiting, at)

    def trouble_finder(self, at: float) -> Callable[[Waiting], bool]:
        """Whether all places that a request may try are full, or do not answer."""
        if not self.avoidance.has_trouble:
            return lambda waiting: False
        return lambda waiting: self.is_troubled(waiting, at)

    def is_troubled(self, waiting: Waiting, at: float) -> bool:
        """Whether there are places for it, and each of them is full, or does not answer."""
        places = self.pricing.places(waiting.request, waiting.excluded, at)
        return bool(places) and all(self.avoidance.is_in_trouble(place) for place, _ in places)

    def is_here(self, request: RequestId) -> bool:
        """Whether a request by this id waits or holds a slot: a second one would be counted as the first."""
        return self.running.has_request(request) or request in self.served or request in self.queue

    def retry_after(self, at: float) -> int:
        """Whole seconds until a slot is expected to come free, at least one."""
        return max(1, round(self.planner.first_free_s(at)))


def stopping() -> Draining:
    """The error for what comes or waits while the daemon stops."""
    return Draining("This node is stopping and takes no new work. Start it again and send the request anew.")

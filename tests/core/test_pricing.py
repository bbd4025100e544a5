"""Where a request may run; the conversations of test_scheduler show what the prices lead to."""

from pairproxy.core.avoidance import Avoidance
from pairproxy.core.costs import Costs
from pairproxy.core.errors import SlotsTaken, Unreachable
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import EngineId, ModelName, Place, Request
from pairproxy.core.nodes import NodeTable
from pairproxy.core.pricing import Pricing
from pairproxy.core.running import RunningTable
from tests.core.told import FAST, GPU, SLOW, A, B, C, M, ask, at, document, report

OTHER = EngineId("other")


class Known:
    """What a node knows, and its prices."""

    def __init__(self) -> None:
        self.local, self.nodes, self.avoidance = LocalEngines(A, Costs()), NodeTable(), Avoidance()
        self.pricing = Pricing(self.local, self.nodes, RunningTable(), self.avoidance)

    def places(self, request: Request, time: float = 0.0) -> list[Place]:
        """Where it may run."""
        return [place for place, _ in self.pricing.places(request, (), time)]

    def candidates(self, request: Request, time: float = 0.0) -> list[Place]:
        """Where it may run, as priced."""
        found = self.pricing.candidates(request, (), self.pricing.occupancies(time), time)
        return [candidate.place for candidate in found]


def test_places_are_those_with_the_same_content() -> None:
    """This node's first, the called engine's before its others."""
    known = Known()
    known.local.report(report(engine=GPU))
    known.local.report(report(engine=OTHER))
    known.nodes.report(document(B), 0.0)
    known.nodes.report(document(C, identity="sha256:2"), 0.0)
    assert known.places(ask("r", engine=OTHER)) == [at(A, OTHER), at(A), at(B)]


def test_without_a_replica_of_its_own_the_content_that_most_slots_hold_is_wanted() -> None:
    """So all requests of this node get the same one."""
    known = Known()
    known.nodes.report(document(B, slots=1), 0.0)
    known.nodes.report(document(C, slots=4, identity="sha256:2"), 0.0)
    assert known.places(ask("r")) == [at(C)]


def test_an_avoided_place_is_the_last_resort_and_one_that_said_not_now_not_even_that() -> None:
    """Better a node that failed a moment ago than none; a full one would only refuse again."""
    known = Known()
    known.nodes.report(document(B), 0.0)
    known.nodes.report(document(C), 0.0)
    known.avoidance.blame(at(B), Unreachable("gone"), 0.0)
    assert known.candidates(ask("r"), 0.1) == [at(C)]
    known.avoidance.blame(at(C), SlotsTaken("taken"), 0.1)
    assert known.candidates(ask("r"), 0.2) == [at(B)]
    assert known.candidates(ask("r"), 1.5) == [at(B), at(C)]


def test_others_requests_at_a_peer_age_with_its_document() -> None:
    """What was to end in five seconds ends in three, two seconds later."""
    known = Known()
    known.nodes.report(document(B, frees=(5.0,)), 10.0)
    assert known.pricing.occupancies(12.0)[at(B)].wait_s == 3.0


def test_a_peer_tells_its_own_speed() -> None:
    """Its word counts for its models, and what was measured here for ours."""
    known = Known()
    known.local.report(report())
    known.nodes.report(document(B, rates=SLOW), 0.0)
    assert known.pricing.rates(at(B), M) == SLOW
    assert known.pricing.known_places(0.0)[at(B)] == (1, {M: SLOW})
    assert set(known.pricing.known_places(0.0)) == {at(A), at(B)}
    assert set(known.pricing.known_places(9.0)) == {at(A)}


def test_a_model_is_known_while_any_node_was_seen_with_it() -> None:
    """Also one that is silent just now, unless the request must stay here."""
    known = Known()
    known.nodes.report(document(B, rates=FAST), 0.0)
    assert known.pricing.is_known(ask("r"))
    assert not known.pricing.is_known(ask("r", local_only=True))
    assert not known.pricing.is_known(ask("r", model=ModelName("other")))

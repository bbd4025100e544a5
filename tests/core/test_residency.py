"""Who made whom load a model, and who would miss it."""

from pairproxy.core.commands import Command, Dispatch, Refuse
from pairproxy.core.errors import QueueFull
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    NodeForgotten,
    RequestAbandoned,
    RequestArrived,
)
from pairproxy.core.models import (
    AttemptId,
    Decision,
    Dialect,
    EngineId,
    ModelName,
    NodeId,
    Outcome,
    Place,
    Request,
    RequestId,
    Usage,
)
from pairproxy.core.residency import MISSED_S, MODELS, Residency

OWN, BEN, EVE = NodeId("own"), NodeId("ben"), NodeId("eve")
HERE, AT_BEN, AT_EVE = (Place(node, EngineId("e")) for node in (OWN, BEN, EVE))
MODEL = ModelName("m:1")


class Story:
    """Tells a residency what happens; each word is one event."""

    def __init__(self) -> None:
        self.residency = Residency(OWN)

    def arrives(self, name: str, *at_places: Place, model: str = MODEL, origin: NodeId | None = None) -> None:
        request = Request(
            RequestId(name), ModelName(model), Dialect.OLLAMA, "/api/chat", True, 1, 1, origin=origin
        )
        self.residency.heard(RequestArrived(0.0, request), [_sent(name, 1, place) for place in at_places])

    def ends(self, name: str, at: float) -> None:
        attempt = AttemptId(RequestId(name), 1)
        self.residency.heard(AttemptFinished(at, attempt, Outcome.DONE, Usage()), [])

    def may_unload(self, peer: NodeId = BEN, at: float = 0.0) -> bool:
        return self.residency.may_unload(MODEL, peer, at)


def _sent(name: str, number: int, place: Place) -> Command:
    return Dispatch(AttemptId(RequestId(name), number), Decision(place, "p", "r", ()))


def test_every_peer_that_was_used_is_known_until_it_is_told() -> None:
    """Places of peers only, of this model only, each once; also those of attempts that failed there."""
    story = Story()
    story.arrives("a", AT_EVE)
    story.arrives("b", AT_BEN)
    story.arrives("c", HERE)
    story.arrives("d", AT_BEN)
    story.arrives("e", AT_BEN, model="other")
    failure = AttemptFailed(1.0, AttemptId(RequestId("c"), 1), QueueFull("x"))
    assert story.residency.places_of(MODEL) == (AT_BEN, AT_EVE)
    story.residency.forget(MODEL)
    assert story.residency.places_of(MODEL) == ()
    story.residency.heard(failure, [_sent("c", 2, AT_EVE)])
    assert story.residency.places_of(MODEL) == (AT_EVE,)
    assert story.residency.places_of(ModelName("other")) == (AT_BEN,)


def test_a_forgotten_peer_is_not_told_to_unload() -> None:
    """Nothing is sent to it any more; the others are told."""
    story = Story()
    story.arrives("a", AT_EVE)
    story.arrives("b", AT_BEN)
    story.arrives("c", AT_BEN, model="other")
    story.residency.heard(NodeForgotten(1.0, BEN), [])
    assert story.residency.places_of(MODEL) == (AT_EVE,)
    assert story.residency.places_of(ModelName("other")) == ()


def test_a_model_in_use_is_not_unloaded() -> None:
    """Not while a request for it runs here, whoever sent it; after its end the peer that sent it may."""
    story = Story()
    story.arrives("a", HERE, origin=BEN)
    assert not story.may_unload()
    story.ends("a", 1.0)
    assert story.may_unload(at=1.0)
    assert not story.may_unload(EVE, at=1.0)


def test_what_others_used_lately_stays() -> None:
    """Clients of this machine and other peers may come again for five minutes after their last reply."""
    for user in (None, EVE):
        story = Story()
        story.arrives("a", HERE, origin=user)
        story.ends("a", 10.0)
        assert not story.may_unload(at=10.0 + MISSED_S)
        assert story.may_unload(at=10.1 + MISSED_S)


def test_own_clients_that_use_it_all_the_time_count_as_of_their_last_reply() -> None:
    """Whoever else comes and goes meanwhile; and a peer's use goes when it is long enough ago."""
    story = Story()
    story.arrives("a", HERE)
    story.ends("a", 100.0)
    story.arrives("b", HERE, origin=EVE)
    story.ends("b", 150.0)
    for number, at in enumerate((200.0, 900.0, 1000.0)):
        story.arrives(f"c{number}", HERE)
        story.ends(f"c{number}", at)
    assert not story.may_unload(at=1000.0 + MISSED_S)
    assert story.may_unload(at=1001.0 + MISSED_S)
    assert story.residency._used[MODEL] == {None: 1000.0}


def test_what_nobody_used_may_go() -> None:
    """Also what ran elsewhere, what was refused, and what its client left."""
    story = Story()
    story.arrives("a", AT_BEN)
    story.arrives("b")
    story.residency.heard(RequestAbandoned(0.0, RequestId("a")), [Refuse(RequestId("b"), QueueFull("x"))])
    assert story.may_unload()
    story.arrives("c", HERE)
    story.residency.heard(RequestAbandoned(1.0, RequestId("c")), [])
    assert not story.may_unload(at=2.0)
    assert story.may_unload(at=2.0 + MISSED_S)


def test_what_is_remembered_is_bounded() -> None:
    """The models used longest ago are forgotten first; what ended leaves nothing."""
    story = Story()
    for number in range(MODELS + 1):
        for place in (HERE, AT_BEN):
            name = f"{number}-{place.node}"
            story.arrives(name, place, model=f"m{number}")
            story.ends(name, 1.0)
    first, last = ModelName("m0"), ModelName(f"m{MODELS}")
    assert (story.residency.places_of(first), story.residency.places_of(last)) == ((), (AT_BEN,))
    assert story.residency.may_unload(first, BEN, 1.0)
    assert not story.residency.may_unload(last, BEN, 1.0)
    assert not story.residency._live
    assert not story.residency._here

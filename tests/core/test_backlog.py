"""What a node reckons with of other origins' queues."""

from dataclasses import replace

from pairproxy.core.documents import StateDocument, Wanted
from pairproxy.core.models import ModelName, NodeId
from tests.core.told import FAST, SLOW, A, B, C, M, Told, ask, document, queued, sent

D = NodeId("d")


def waiting_at(node: NodeId, count: int, **more: object) -> StateDocument:
    """A slow and busy peer with so many requests in its queue, each a hundred tokens in and out."""
    told = document(node, rates=SLOW, frees=(600.0,), **more)  # type: ignore[arg-type]
    return replace(told, wanted=(Wanted(M, count, 100.0 * count, 100.0 * count, 1.0),))


def test_a_busy_place_is_not_waited_for_behind_those_who_wait_for_it_elsewhere() -> None:
    """A fast peer that is free in two seconds beats this slow node; not if another origin gets that slot."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST, frees=(2.0,)))
    assert queued(told.arrives(ask("r"))) == [("r", 0)]
    told.leaves("r")
    told.hears(waiting_at(C, 1))
    told.hears(waiting_at(D, 1))
    assert sent(told.arrives(ask("s"))) == [("s", A)]


def test_origins_take_turns() -> None:
    """Before the first request of this node stands one of another origin, however many wait there."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST, frees=(0.6,)))
    told.hears(waiting_at(C, 50))
    assert queued(told.arrives(ask("r"))) == [("r", 0)], "second at the fast node"
    assert sent(told.arrives(ask("s"))) == [("s", A)], "fourth there"


def test_who_could_start_now_takes_nothing_from_anybody() -> None:
    """A free slot is not kept for another's request: that is its owner's to say."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    told.hears(waiting_at(C, 9))
    assert sent(told.arrives(ask("r"))) == [("r", B)]


def test_a_peer_that_takes_no_part_is_not_reckoned_with() -> None:
    """It is silent for too long, or waits for a model that nobody here has."""
    told = Told(speed=SLOW)
    other = replace(waiting_at(C, 9), wanted=(Wanted(ModelName("other:latest"), 9, 900.0, 900.0, 1.0),))
    told.hears(waiting_at(D, 9))
    told.at = 5.0
    told.hears(other)
    told.hears(document(B, rates=FAST, frees=(1.0,)))
    assert queued(told.arrives(ask("r"))) == [("r", 0)]

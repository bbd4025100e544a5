"""A node that offers no slot to its peers, and those peers."""

from dataclasses import replace

import pytest

from pairproxy.core.documents import StateDocument, Wanted, Withheld
from pairproxy.core.errors import SlotsTaken
from pairproxy.core.events import DrainStarted, EngineLost, OfferChanged
from pairproxy.core.models import NodeId, Rates
from pairproxy.core.nodes import usable
from tests.core.told import FAST, GPU, SLOW, A, B, C, M, Told, ask, document, queued, refused, sent


def withhold(told: Told, why: str = Withheld.DRAINED) -> None:
    """The node's slots are offered to its peers no more; "": again."""
    told.tell(OfferChanged(told.at, why))


def published(told: Told, reader: NodeId = B) -> StateDocument:
    """What the node tells a peer now."""
    return told.scheduler.document_for(reader, "epoch", 1, "name", told.at)


def withholding(node: NodeId, sequence: int = 2, wanted: int = 0) -> StateDocument:
    """A fast peer with a free slot that it does not offer, and what waits there."""
    waits = (Wanted(M, wanted, 100.0 * wanted, 100.0 * wanted, 1.0),) if wanted else ()
    told = document(node, rates=FAST, sequence=sequence, draining=True)
    return replace(told, withheld=Withheld.OWNER, wanted=waits)


def test_peers_get_nothing_while_own_clients_go_on() -> None:
    """A peer's request is refused so that it goes elsewhere; the slot is a client's of this machine."""
    told = Told(slots=2)
    withhold(told)
    assert refused(told.arrives(ask("b-r-1", origin=B))) == [("b-r-1", SlotsTaken)]
    assert sent(told.arrives(ask("r"))) == [("r", A)]


def test_what_a_peer_has_running_is_finished() -> None:
    """Nothing is broken off by it, and it goes on to be shown as the reader's."""
    told = Told(slots=2)
    told.arrives(ask("b-r-1", origin=B))
    assert told.tell(OfferChanged(told.at, Withheld.OWNER)) == []
    assert published(told).engines[0].yours == 1
    assert told.finishes("b-r-1") == []
    assert not list(told.scheduler.running)


def test_the_document_says_why_and_readers_of_any_version_send_nothing() -> None:
    """An older reader knows "takes no new work"; the reason is beside it, and both end together."""
    told = Told()
    assert (published(told).is_draining, published(told).withheld) == (False, "")
    withhold(told, Withheld.BATTERY)
    assert (published(told).is_draining, published(told).withheld) == (True, "battery")
    assert not told.scheduler.is_draining, "it is not stopping"
    withhold(told, "")
    assert (published(told).is_draining, published(told).withheld) == (False, "")


def test_a_node_without_an_engine_says_so_and_is_never_chosen() -> None:
    """It only sends requests; an engine that falls silent makes it one, for as long."""
    told = Told()
    assert published(told).withheld == ""
    told.tell(EngineLost(told.at, GPU))
    assert (published(told).withheld, published(told).is_draining) == (Withheld.NO_ENGINE, False)
    reader = Told(speed=SLOW)
    reader.hears(replace(published(told), node=B))
    assert sent(reader.arrives(ask("r"))) == [("r", A)]


def test_a_node_that_stops_says_no_other_reason() -> None:
    """Its peers know then that it will be gone."""
    told = Told()
    withhold(told)
    told.tell(DrainStarted(told.at))
    assert (published(told).is_draining, published(told).withheld) == (True, "")


def test_no_slot_is_promised_and_what_was_promised_is_taken_back() -> None:
    """Its free slot is its own clients' at once, also where a peer starves for it."""
    told = Told(speed=FAST)
    wants = replace(document(B, rates=SLOW, frees=(60.0,)), wanted=(Wanted(M, 1, 100.0, 100.0, 9.0, (), 1),))
    told.hears(wants)
    assert [one.origin for one in published(told).engines[0].promises] == [B]
    withhold(told)
    assert published(told).engines[0].promises == ()
    told.passes(6.0)
    told.hears(replace(wants, sequence=2))
    assert published(told).engines[0].promises == ()
    assert sent(told.arrives(ask("r"))) == [("r", A)]


def test_what_waits_for_such_a_peer_is_planned_anew() -> None:
    """It waited for a faster place that takes nothing any more: it goes where it can."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST, frees=(1.0,)))
    assert queued(told.arrives(ask("r"))) == [("r", 0)]
    assert sent(told.hears(withholding(B))) == [("r", A)]


def test_a_peer_that_offers_again_is_used_again() -> None:
    """Nothing is held against it."""
    told = Told(speed=SLOW)
    told.hears(withholding(B))
    assert sent(told.arrives(ask("r"))) == [("r", A)]
    told.hears(document(B, rates=FAST, sequence=3))
    assert sent(told.arrives(ask("s"))) == [("s", B)]


def test_one_that_is_refused_for_it_runs_elsewhere() -> None:
    """The news came with the refusal."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    assert sent(told.arrives(ask("r"))) == [("r", B)]
    told.hears(withholding(B))
    assert sent(told.fails("r", SlotsTaken("This node offers no slot to others at present."))) == [("r", A)]


def test_such_a_peer_still_counts_as_an_origin() -> None:
    """What waits there takes slots of others before a request of this node does."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST, frees=(2.0,)))
    for node in (C, NodeId("d")):
        told.hears(replace(withholding(node, wanted=1), engines=document(node, frees=(600.0,)).engines))
    assert sent(told.arrives(ask("r"))) == [("r", A)]


def test_others_take_no_turn_at_slots_that_are_not_offered() -> None:
    """A node that withholds its own does not plan as if what waits elsewhere came to it."""
    told = Told(speed=FAST)
    told.arrives(ask("first"))
    told.hears(document(B, rates=Rates(prefill=400.0, decode=40.0, beta=0.15)))
    crowd = replace(
        document(C, rates=SLOW, frees=(600.0,)), wanted=(Wanted(M, 9, 900.0, 900.0, 1.0),), engines=()
    )
    told.hears(crowd)
    withhold(told)
    assert queued(told.arrives(ask("r"))) == [("r", 0)], "2.2 s here, 2.75 s at the free peer"


@pytest.mark.parametrize("word", ["x" * 33, "\x1b[2J", "owner\n"])
def test_a_reason_that_is_no_word_is_none_that_is_known(word: str) -> None:
    """What a peer sends is shown to people."""
    assert usable(replace(withholding(B), withheld=word)).withheld == Withheld.UNKNOWN


def test_a_reason_of_a_newer_version_is_kept() -> None:
    """A reader that does not know it still knows that nothing is offered."""
    assert usable(replace(withholding(B), withheld="moving-house")).withheld == "moving-house"

"""Conversations about requests of peers, and what a node publishes for them."""

from dataclasses import replace

import pytest

from pairproxy.core.arrivals import SEEN_S
from pairproxy.core.catalogue import node_catalogue
from pairproxy.core.commands import BreakOff
from pairproxy.core.documents import CatalogueEntry, EngineCatalogue, StateDocument
from pairproxy.core.errors import (
    Draining,
    ModelNotFound,
    PairproxyError,
    SlotsTaken,
    Unreachable,
    UpstreamBusy,
)
from pairproxy.core.events import (
    CatalogueReported,
    DrainStarted,
    EngineReported,
    NodeForgotten,
    SpeedMeasured,
)
from pairproxy.core.models import EngineId, ModelName, NodeId, Usage
from tests.core.told import (
    FAST,
    GPU,
    SLOW,
    A,
    B,
    C,
    M,
    Told,
    ask,
    at,
    document,
    only_dispatch,
    queued,
    refused,
    report,
    sent,
)


def published(told: Told, reader: NodeId = B) -> StateDocument:
    """What the node of the conversation says of itself now."""
    return told.scheduler.document_for(reader, "epoch", 7, "name", told.at)


def test_a_peers_request_runs_here_or_is_refused() -> None:
    """It takes a free slot; without one it is refused at once, never queued."""
    told = Told()
    assert sent(told.arrives(ask("b-r-1", origin=B))) == [("b-r-1", A)]
    assert refused(told.arrives(ask("c-r-1", origin=C))) == [("c-r-1", SlotsTaken)]
    assert told.scheduler.waiting == 0
    told.finishes("b-r-1")
    assert sent(told.arrives(ask("c-r-2", origin=C))) == [("c-r-2", A)]


def test_a_peers_request_is_never_sent_on() -> None:
    """However fast another node may be, and also when it fails here."""
    told = Told(speed=SLOW, slots=2)
    told.hears(document(C, rates=FAST))
    assert sent(told.arrives(ask("b-r-1", origin=B))) == [("b-r-1", A)]
    assert refused(told.fails("b-r-1", UpstreamBusy("busy"))) == [("b-r-1", UpstreamBusy)]


def test_a_peer_does_not_overtake_by_asking_when_a_request_here_waits_for_better() -> None:
    """A free slot is given to the peer even while a request of this machine waits for a faster node."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST, frees=(1.0,)))
    assert queued(told.arrives(ask("own"))) == [("own", 0)]
    assert sent(told.arrives(ask("c-r-1", origin=C))) == [("c-r-1", A)]


def test_a_peers_request_runs_on_the_engine_it_chose() -> None:
    """Two engines may hold different content under one name, and the peer chose by content."""
    told = Told(speed=FAST)
    told.tell(EngineReported(told.at, report(engine=EngineId("other"), identity="sha256:2")))
    commands = told.arrives(ask("b-r-1", origin=B, engine=EngineId("other")))
    assert only_dispatch(commands).decision.place == at(A, EngineId("other"))
    assert refused(told.arrives(ask("b-r-2", origin=B, engine=EngineId("other")))) == [("b-r-2", SlotsTaken)]
    assert refused(told.arrives(ask("b-r-3", origin=B, engine=EngineId("gone")))) == [
        ("b-r-3", ModelNotFound)
    ]


def test_a_peers_request_for_an_unknown_model_is_refused() -> None:
    """No engine here is asked for a model that it does not list, on behalf of somebody else."""
    other = ModelName("other:latest")
    assert refused(Told().arrives(ask("b-r-1", model=other, origin=B, engine=GPU))) == [
        ("b-r-1", ModelNotFound)
    ]


def test_a_draining_node_refuses_peers() -> None:
    """It takes no new work from others."""
    told = Told()
    told.tell(DrainStarted(told.at))
    assert refused(told.arrives(ask("b-r-1", origin=B))) == [("b-r-1", Draining)]
    assert published(told).is_draining


def test_a_request_that_is_here_already_is_refused() -> None:
    """A second one by the same id would take a slot that is not counted; also while the first one settles."""
    told = Told(slots=3)
    told.arrives(ask("r"))
    assert refused(told.arrives(ask("r"))) == [("r", SlotsTaken)]
    told.leaves("r", settled=False)
    assert refused(told.arrives(ask("r"))) == [("r", SlotsTaken)]
    told.settles("r")
    assert sent(told.arrives(ask("r"))) == [("r", A)]


def test_a_peers_attempt_that_was_here_is_not_served_again() -> None:
    """Whatever became of it: running, done, or refused; a copy of it may come late. For two minutes."""
    told = Told(slots=1)
    told.arrives(ask("b-r-1", origin=B))
    told.arrives(ask("b-s-1", origin=B))
    told.finishes("b-r-1")
    for name in ("b-r-1", "b-s-1"):
        assert refused(told.arrives(ask(name, origin=B))) == [(name, SlotsTaken)]
    assert sent(told.arrives(ask("b-s-1", origin=C))) == [("b-s-1", A)], "another's is another one"
    told.finishes("b-s-1")
    told.passes(SEEN_S)
    assert sent(told.arrives(ask("b-r-1", origin=B))) == [("b-r-1", A)]


def test_the_document_counts_each_readers_own_apart() -> None:
    """A reader knows how long its own requests run; of the others it learns when they are expected to end."""
    told = Told(speed=FAST, slots=3)
    told.arrives(ask("own"))
    told.arrives(ask("b-r-1", origin=B))
    to_b, to_c = published(told, B).engines[0], published(told, C).engines[0]
    assert (to_b.slots, to_b.in_flight, to_b.yours, len(to_b.frees_in_s)) == (3, 2, 1, 1)
    assert (to_c.in_flight, to_c.yours, len(to_c.frees_in_s)) == (2, 0, 2)
    assert to_b.frees_in_s == pytest.approx((1.1,))


def test_the_document_shows_a_reader_that_what_it_gave_up_still_holds_its_slot() -> None:
    """Otherwise it would ask again and again for a slot that its engine has not left."""
    told = Told(speed=FAST)
    told.arrives(ask("b-r-1", origin=B))
    told.leaves("b-r-1", settled=False)
    engine = published(told).engines[0]
    assert (engine.in_flight, engine.yours, len(engine.frees_in_s)) == (1, 0, 1)
    reader = Told(speed=None)
    reader.hears(document(B, frees=engine.frees_in_s))
    assert sent(reader.arrives(ask("r"))) == []


def test_the_document_tells_the_measured_speed() -> None:
    """A calibration is published; it says nothing of how long replies are."""
    told = Told(speed=None)
    told.tell(EngineReported(told.at, report()))
    before = told.scheduler.local.costs.expected_output(ask("r", limit=None))
    told.tell(SpeedMeasured(told.at, GPU, M, Usage(100, None, 24, 0.1, 0.12)))
    rates = published(told).engines[0].replicas[0].rates
    assert (rates.prefill, rates.decode) == pytest.approx((1000.0, 200.0))
    assert told.scheduler.local.costs.expected_output(ask("r", limit=None)) == before


def test_a_finished_request_teaches_the_speed_of_the_engine() -> None:
    """Prefill from dispatch to first byte, decode from there to the end."""
    told = Told(speed=None)
    told.tell(EngineReported(told.at, report()))
    told.arrives(ask("r"))
    told.at = 0.5
    told.begins("r")
    told.at = 2.5
    told.finishes("r", tokens=100)
    assert published(told).engines[0].replicas[0].rates.decode == pytest.approx(50.0)


@pytest.mark.parametrize("error", [SlotsTaken("taken"), Unreachable("gone")])
def test_an_attempt_that_is_over_is_not_heard_again(error: PairproxyError) -> None:
    """What is told twice, or too late, neither loses the next attempt nor frees its slot."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    told.arrives(ask("r"))
    told.fails("r", Unreachable("gone"), settled=True)
    assert told.fails("r", error, 1) == []
    assert told.settles("r", 1) == told.settles("r", 2) == []
    assert told.begins("r", 1) == told.finishes("r", 1) == []
    assert queued(told.arrives(ask("s"))) == [("s", 0)]
    assert sent(told.finishes("r", 2)) == [("s", A)]


def test_what_a_peer_lists_is_kept_and_moves_nothing() -> None:
    """It is no news for the plan; what this node lists itself is named in its own document."""
    told, listed = Told(), CatalogueEntry(M, tags='{"name":"m"}')
    theirs = node_catalogue(B, (EngineCatalogue(GPU, "ollama", (listed,)),))
    assert told.tell(CatalogueReported(0.0, theirs)) == []
    assert told.scheduler.nodes.catalogues.content(B) == theirs.content
    before = published(told).catalogue
    told.tell(EngineReported(0.0, replace(report(), catalogue=(listed,))))
    assert published(told).catalogue not in ("", before)


def test_nothing_is_kept_of_what_a_forgotten_node_told() -> None:
    """Its state, its lives, its listing and its prompts go, and what runs there is broken off."""
    told = Told(speed=None)
    told.hears(document(B))
    told.hears(document(B, epoch="2"))
    told.tell(CatalogueReported(told.at, node_catalogue(B, ())))
    asked = only_dispatch(told.arrives(ask("r")))
    nodes = told.scheduler.nodes
    assert nodes.catalogues.content(B) != ""
    commands = told.tell(NodeForgotten(told.at, B))
    assert [one.attempt for one in commands if isinstance(one, BreakOff)] == [asked.attempt]
    assert (nodes.epoch(B), nodes.catalogues.content(B)) == (None, "")
    assert nodes.report(document(B, epoch="1"), told.at), "it is paired anew, and is as if never met"

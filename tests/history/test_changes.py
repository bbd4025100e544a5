import json
from dataclasses import replace

from pairproxy.core.documents import EngineReport
from pairproxy.core.events import (
    EngineLost,
    EngineReported,
    NodeForgotten,
    NodeLost,
    NodeReported,
    TimePassed,
)
from pairproxy.core.models import EngineId, ModelName, NodeId, Replica
from pairproxy.history.changes import (
    MOST_IN_WINDOW,
    MOST_NAMES,
    NAME_CHARACTERS,
    WINDOW_S,
    Changes,
    NodeChange,
)
from tests.core.told import document

OWN, PEER = NodeId("a"), NodeId("b")
ENGINE = EngineId("gpu")
(TOLD,) = document(PEER).engines


def engine(*models: Replica) -> EngineReported:
    """This node's engine has these."""
    return EngineReported(0.0, EngineReport(ENGINE, "ollama", "1", 1, tuple((one, True) for one in models)))


def replica(name: str, identity: str = "sha256:1") -> Replica:
    """A model with a content."""
    return Replica(ModelName(name), identity)


def test_a_peer_comes_and_goes() -> None:
    """Once each, however often it reports; one that was never there does not go."""
    changes = Changes(OWN)
    report = NodeReported(0.0, document(PEER))
    assert changes.heard(NodeLost(0.0, PEER), 1.0) == []
    assert [one.what for one in changes.heard(report, 2.0)] == ["up", "engine-up"]
    assert changes.heard(report, 3.0) == []
    assert changes.heard(NodeLost(0.0, PEER), 4.0) == [NodeChange(4.0, PEER, "down")]
    assert [one.what for one in changes.heard(report, 5.0)] == ["up", "engine-up"]
    assert changes.heard(NodeForgotten(0.0, PEER), 6.0) == [NodeChange(6.0, PEER, "forgotten")]


def test_an_engine_comes_goes_and_changes_its_models() -> None:
    """Which models, by name: added, removed, and those that mean another content now."""
    changes = Changes(OWN)
    assert changes.heard(engine(replica("m"), replica("n")), 1.0) == [
        NodeChange(1.0, OWN, "engine-up", ENGINE)
    ]
    assert changes.heard(engine(replica("n"), replica("m")), 2.0) == []  # told in another order
    (change,) = changes.heard(engine(replica("m", "sha256:2"), replica("o")), 3.0)
    assert (change.what, json.loads(change.detail)) == (
        "models",
        {"engine": ENGINE, "added": ["o"], "removed": ["n"], "changed": ["m"]},
    )
    assert changes.heard(EngineLost(0.0, ENGINE), 4.0) == [NodeChange(4.0, OWN, "engine-down", ENGINE)]
    assert changes.heard(EngineLost(0.0, ENGINE), 5.0) == []


def test_a_peers_engine_goes() -> None:
    """It is in its documents no more."""
    changes = Changes(OWN)
    whole = document(PEER)
    changes.heard(NodeReported(0.0, whole), 1.0)
    (change,) = changes.heard(NodeReported(1.0, replace(whole, engines=())), 2.0)
    assert (change.node, change.what) == (PEER, "engine-down")


def test_a_detail_names_a_few_models_and_counts_the_rest() -> None:
    """An engine may list thousands."""
    changes = Changes(OWN)
    changes.heard(engine(), 1.0)
    (change,) = changes.heard(engine(*(replica(f"m{number}") for number in range(1000))), 2.0)
    told = json.loads(change.detail)
    assert (len(told["added"]), told["added_more"]) == (MOST_NAMES, 1000 - MOST_NAMES)


def test_a_peer_that_changes_all_the_time_fills_nothing() -> None:
    """A minute of it is so many changes, each of a bounded size; then it is heard again."""
    changes = Changes(OWN)
    told: list[NodeChange] = []
    long = "\U0001f600" * 240
    for number in range(200):
        names = [ModelName(f"{number}{long}{one}") for one in range(50)]
        replicas = tuple(replace(TOLD.replicas[0], replica=replica(name)) for name in names)
        engines = tuple(replace(TOLD, engine=EngineId(f"e{one}"), replicas=replicas) for one in range(99))
        told += changes.heard(NodeReported(0.0, replace(document(PEER), engines=engines)), number / 10.0)
        told += changes.heard(NodeLost(0.0, PEER), number / 10.0) if number % 7 == 0 else []
    assert len(told) == MOST_IN_WINDOW
    assert max(len(one.detail.encode()) for one in told) <= 4 * MOST_NAMES * (NAME_CHARACTERS + 8) * 2
    assert changes.heard(engine(), 30.0) != []  # this node's own are told
    assert changes.heard(NodeReported(0.0, document(PEER)), 20.0 + WINDOW_S) != []
    assert changes.heard(NodeForgotten(0.0, PEER), 30.0 + WINDOW_S) != []


def test_a_peers_document_counts_as_far_as_it_can_be_reckoned_with() -> None:
    """A name that is none, or a megabyte of it, is not kept."""
    changes = Changes(OWN)
    bad = (replace(TOLD, engine=EngineId("x" * 10**6)), replace(TOLD, engine=EngineId("\x1b[2J")))
    changes.heard(NodeReported(0.0, replace(document(PEER), engines=())), 1.0)
    assert changes.heard(NodeReported(0.0, replace(document(PEER), engines=bad)), 1.0) == []


def test_other_events_change_nothing() -> None:
    """Time passes."""
    assert Changes(OWN).heard(TimePassed(1.0), 1.0) == []

"""One life of a node in the storm."""

from pairproxy.core.commands import Command, Dispatch
from pairproxy.core.events import RequestArrived
from pairproxy.core.experiments.lives import Connection, Life, Work, request
from pairproxy.core.models import AttemptId, NodeId, Place, Rates, RequestId
from pairproxy.core.workload import ENGINE
from tests.core.told import A, B


def begun() -> tuple[Life, list[Command]]:
    """A life that has begun, and what its scheduler said."""
    said: list[Command] = []
    life = Life(A, 1, 2, Rates(1000.0, 50.0, 0.15), lambda life, command, at: said.append(command))
    life.begin(0.0)
    return life, said


def test_books_that_differ_from_what_runs_are_found() -> None:
    """A slot that is counted and not used, and one that is used and not counted."""
    life, said = begun()
    assert life.faults(0.0) == []
    life.tell(RequestArrived(0.0, request(RequestId("r1"), 100, None, "c")))
    (dispatch,) = said
    assert isinstance(dispatch, Dispatch)
    assert life.faults(0.0) == ["a: 1 counted as running here, 0 run"]
    life.works[dispatch.attempt] = Work(dispatch.attempt, ENGINE, None)
    assert life.held(ENGINE) == 1
    assert life.faults(0.0) == []
    again = AttemptId(RequestId("r1"), 2)
    life.out[again] = Connection(life, again, Place(B, ENGINE))
    assert life.faults(0.0) == [
        "a: 0 counted as running at peers, 1 are under way",
        "a: a request runs twice",
    ]


def test_a_document_is_of_its_life() -> None:
    """It names the life, and counts on."""
    life, _ = begun()
    first, second = life.document(B, 0.0), life.document(B, 0.0)
    assert (first.epoch, first.sequence, second.sequence) == ("1", 1, 2)
    assert second.engines[0].slots == 2


def test_a_guest_is_named_by_its_origin_and_attempt() -> None:
    """So that two origins never mean the same."""
    life, _ = begun()
    connection = Connection(life, AttemptId(RequestId("r7"), 3), Place(B, ENGINE))
    assert connection.guest == "a-r7-3"
    asked = request(connection.guest, 10, 20, "c", NodeId("a"))
    assert (asked.origin, asked.client, asked.engine) == ("a", "a", ENGINE)

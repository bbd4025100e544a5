"""What a ledger tells of requests that are open, and how many ended how."""

from pairproxy.core.models import Outcome, RequestId
from tests.core.accounting.conversation import A, B, Told, asked, dispatch


def test_an_open_request_is_there_until_it_has_ended() -> None:
    """By its id, and in the order of arrival."""
    told = Told()
    told.arrived(0.0, "abc", dispatch("abc", A))
    told.arrived(1.0, "def")
    opened = told.ledger.find_open(RequestId("abc"))
    assert opened is not None
    assert (opened.arrived_at, [one.id for one in told.ledger.opened()]) == (0.0, ["abc", "def"])
    assert told.ledger.find_open(RequestId("ab")) is None
    told.finished(1.0, "abc")
    assert told.ledger.find_open(RequestId("abc")) is None
    assert [one.id for one in told.ledger.opened()] == ["def"]


def test_outcomes_count_the_records_that_are_kept() -> None:
    """What is let go does not count any more; guests count too. Nothing is told of what never happened."""
    told = Told(limit_records=2)
    for number, name in enumerate(("a", "b", "c")):
        told.arrived(number, name, dispatch(name, A))
        told.finished(number + 0.5, name, outcome=Outcome.ERROR if name == "a" else Outcome.DONE)
    told.arrived(9.0, asked("guest", origin=B), dispatch("guest", A))
    told.left(9.5, "guest")
    assert told.ledger.outcomes == {"done": 2, "cancelled": 1}
    assert told.ledger.ended == 4

"""What a ledger tells of requests that are open, that came at once, and how many ended how."""

from pairproxy.core.events import AttemptFinished
from pairproxy.core.models import AttemptId, Outcome, RequestId, Usage
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


def test_a_reply_that_came_at_once_has_its_first_byte_at_its_end() -> None:
    """Nobody told of its first byte before."""
    told = Told()
    told.arrived(0.0, "r", dispatch("r", A))
    end = AttemptFinished(3.0, AttemptId(RequestId("r"), 1), Outcome.DONE, Usage(), is_whole=True)
    told.ledger.record(end, [])
    assert (told.only.ttft_s, told.only.latency_s) == (3.0, 3.0)

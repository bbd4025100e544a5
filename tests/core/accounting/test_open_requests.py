from pairproxy.core.accounting.open_requests import LIMIT_ATTEMPTS, OpenRequest
from pairproxy.core.errors import SlotsTaken
from pairproxy.core.events import TimePassed
from pairproxy.core.models import Outcome, Usage
from tests.core.accounting.conversation import A, B, Told, asked, at, dispatch


def test_the_attempts_of_a_request_are_bounded() -> None:
    """However often its slot was taken by somebody else, the last attempts are kept and no more."""
    told = Told()
    told.arrived(10.0, "r", dispatch("r", A))
    for number in range(1, 50):
        told.failed(10.0, "r", SlotsTaken("Taken."), dispatch("r", A, number=number + 1), number=number)
    told.finished(11.0, "r", number=50)
    attempts = told.only.attempts
    assert (len(attempts), attempts[-1].number) == (LIMIT_ATTEMPTS, 50)


def test_an_attempt_keeps_the_decision_that_led_to_it() -> None:
    """All candidates as they were priced, and what was predicted of the one that was picked."""
    told = Told()
    decided = dispatch("r", A, finish_s=7.0)
    told.arrived(0.0, "r", decided)
    told.finished(6.0, "r")
    (attempt,) = told.only.attempts
    assert attempt.decision == decided.decision
    assert attempt.predicted_finish_s == 7.0


def test_the_record_takes_over_what_the_request_said() -> None:
    """Its chain, the blocks of its prompt, its limit and its size, but no word."""
    request = asked("r", chain="c", prefix=(1, 2))
    record = OpenRequest(request, 1.0).close(3.0, Outcome.CANCELLED, Usage())
    assert (record.chain, record.prefix, record.prompt_tokens) == ("c", (1, 2), request.prompt_tokens)
    assert (record.max_output_tokens, record.is_streaming) == (None, True)


def test_of_two_attempts_at_once_the_one_that_answers_is_the_final_one() -> None:
    """When a straggler is rescued, the attempt that finishes gives the place and the other is cancelled."""
    told = Told()
    told.arrived(0.0, "r", dispatch("r", A))
    told.ledger.record(TimePassed(4.0), [dispatch("r", B, number=2)])
    told.finished(6.0, "r", number=2)
    assert [(one.number, one.end) for one in told.only.attempts] == [(1, "cancelled"), (2, "done")]
    assert told.only.place == at(B)

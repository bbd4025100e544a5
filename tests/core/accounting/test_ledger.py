from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.commands import Command
from pairproxy.core.errors import (
    BrokenReply,
    Draining,
    ModelNotFound,
    PairproxyError,
    QueueFull,
    QueueTimeout,
    SlotsTaken,
    Unreachable,
)
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    Event,
    FirstByteReceived,
    NodeLost,
    RequestAbandoned,
    RequestArrived,
    TimePassed,
)
from pairproxy.core.models import AttemptId, Outcome, RequestId, Usage
from tests.core.accounting.conversation import A, B, Told, asked, at, dispatch, enqueue, refuse

SOME_USAGE = Usage(prompt_tokens=120, output_tokens=30)


def test_a_request_served_at_once() -> None:
    """A request that is dispatched on arrival and finishes leaves one record with all its times."""
    told = Told()
    told.arrived(10.0, asked("r", client="me", run="job", origin=B), dispatch("r", A, finish_s=7.0))
    told.answered(11.0, "r")
    assert told.ledger.records == ()
    told.finished(14.0, "r", usage=SOME_USAGE)

    record = told.only
    assert (record.id, record.client, record.run, record.origin) == ("r", "me", "job", B)
    assert (record.model, record.dialect, record.path) == ("m", "openai", "/v1/chat/completions")
    assert (record.outcome, record.usage, record.place) == (Outcome.DONE, SOME_USAGE, at(A))
    assert (record.queue_s, record.ttft_s, record.service_s, record.latency_s) == (0.0, 1.0, 4.0, 4.0)
    (attempt,) = record.attempts
    assert (attempt.number, attempt.place, attempt.reason, attempt.end) == (
        1,
        at(A),
        "finishes first",
        "done",
    )
    assert attempt.predicted_finish_s == 7.0
    assert (attempt.dispatched_at, attempt.first_byte_at, attempt.ended_at) == (10.0, 11.0, 14.0)
    assert told.ledger.open_requests == 0


def test_a_request_that_waits_is_dispatched_by_the_end_of_another() -> None:
    """Commands may be about any request: the end of one starts the next, and that wait is its queue time."""
    told = Told()
    told.arrived(0.0, "first", dispatch("first", A))
    told.arrived(1.0, "second", enqueue("second"))
    told.finished(5.0, "first", dispatch("second", A))
    told.finished(8.0, "second")
    first, second = told.ledger.records
    assert (first.queue_s, first.latency_s) == (0.0, 5.0)
    assert (second.queue_s, second.service_s, second.latency_s) == (4.0, 3.0, 7.0)


def test_a_failed_attempt_that_is_tried_again_is_one_request() -> None:
    """A failure followed by another dispatch is a second attempt of the same record."""
    told = Told()
    told.arrived(0.0, "r", dispatch("r", A))
    told.failed(2.0, "r", BrokenReply("It broke off."), dispatch("r", B, number=2))
    told.answered(3.0, "r", number=2)
    told.finished(6.0, "r", number=2)
    record = told.only
    assert [(one.number, one.place.node, one.end) for one in record.attempts] == [
        (1, A, "BrokenReply"),
        (2, B, "done"),
    ]
    assert [one.is_served for one in record.attempts] == [False, True]
    assert (record.queue_s, record.service_s, record.ttft_s) == (2.0, 4.0, 3.0)


def test_a_failed_attempt_may_wait_before_the_next() -> None:
    """After a failure the request can go back to the queue, and end there."""
    told = Told()
    told.arrived(0.0, "r", dispatch("r", A))
    told.failed(2.0, "r", SlotsTaken("Taken."), enqueue("r"))
    assert told.ledger.open_requests == 1
    told.ledger.record(TimePassed(30.0), [refuse("r", QueueTimeout("Waited too long."))])
    assert told.only.outcome is Outcome.REFUSED
    assert [one.end for one in told.only.attempts] == ["SlotsTaken"]
    assert told.only.latency_s == 30.0


def test_a_failed_attempt_that_nobody_can_repeat_fails_the_request() -> None:
    """A failure that leads to a Refuse with an upstream's error is the outcome failed."""
    told = Told()
    told.arrived(0.0, "r", dispatch("r", A))
    told.failed(2.0, "r", Unreachable("It does not answer."), refuse("r", Unreachable("No node answers.")))
    assert told.only.outcome is Outcome.FAILED
    assert told.only.attempts[-1].end == "Unreachable"


def test_refusals_are_refused_and_other_errors_failed() -> None:
    """Nobody is to blame for a refusal; every other error of ours means that no node could serve it."""
    told = Told()
    errors: list[PairproxyError] = [
        QueueFull("f"),
        QueueTimeout("t"),
        Draining("d"),
        SlotsTaken("s"),
        ModelNotFound("m"),
    ]
    for error in errors:
        told.arrived(0.0, type(error).__name__, refuse(type(error).__name__, error))
    outcomes = [record.outcome.value for record in told.ledger.records]
    assert outcomes == ["refused", "refused", "refused", "refused", "failed"]
    record = told.ledger.records[0]
    assert (record.attempts, record.place, record.service_s, record.ttft_s) == ((), None, None, None)


def test_a_client_that_leaves_cancels() -> None:
    """Leaving in the queue and leaving during the reply are both cancelled; the latter ends the attempt."""
    told = Told()
    told.arrived(0.0, "running", dispatch("running", A))
    told.arrived(1.0, "queued", enqueue("queued"))
    told.left(2.0, "queued")
    told.left(5.0, "running")
    queued, running = told.ledger.records
    assert (queued.outcome, queued.attempts, queued.queue_s) == (Outcome.CANCELLED, (), 1.0)
    assert (running.outcome, running.attempts[0].end, running.service_s) == (
        Outcome.CANCELLED,
        "cancelled",
        5.0,
    )
    assert running.attempts[0].is_served


def test_errors_and_truncated_replies_keep_their_outcome() -> None:
    """The engine's own error, and a stream without its end, are outcomes of their own."""
    told = Told()
    for outcome in (Outcome.ERROR, Outcome.TRUNCATED):
        told.arrived(0.0, outcome.value, dispatch(outcome.value, A))
        told.finished(1.0, outcome.value, outcome=outcome)
    assert [record.outcome for record in told.ledger.records] == [Outcome.ERROR, Outcome.TRUNCATED]


def test_what_comes_after_the_end_changes_nothing() -> None:
    """A late byte, end or leaving of a request that is over writes no second record."""
    told = Told()
    told.arrived(0.0, "r", dispatch("r", A))
    told.failed(1.0, "r", BrokenReply("It broke off."), dispatch("r", B, number=2))
    told.finished(2.0, "r", number=1)  # of the attempt that had failed
    assert told.ledger.records == ()
    told.finished(3.0, "r", number=2)
    before = told.ledger.records
    told.answered(4.0, "r", number=2)
    told.finished(5.0, "r", number=2)
    told.left(6.0, "r")
    told.ledger.record(NodeLost(7.0, B), [refuse("r", Unreachable("Gone."))])
    assert told.ledger.records == before


def test_the_first_byte_is_the_first() -> None:
    """A second report of a first byte does not move it."""
    told = Told()
    told.arrived(0.0, "r", dispatch("r", A))
    told.answered(1.0, "r")
    told.answered(2.0, "r")
    told.finished(3.0, "r")
    assert told.only.ttft_s == 1.0


def test_an_id_that_is_open_already_is_overlooked() -> None:
    """A second arrival under an open id, and what becomes of it, does not touch the first."""
    told = Told()
    told.arrived(0.0, "r", dispatch("r", A))
    told.arrived(1.0, "r", refuse("r", SlotsTaken("Seen before.")))
    assert (told.ledger.overlooked, told.ledger.records) == (1, ())
    told.finished(2.0, "r")
    assert told.only.outcome is Outcome.DONE
    told.arrived(3.0, "r", dispatch("r", A))  # the id is free again: a peer's next attempt
    told.finished(4.0, "r")
    assert len(told.ledger.records) == 2


def test_everything_is_bounded() -> None:
    """The ledger keeps the last records, and follows a limited number at once."""
    told = Told(limit_records=2, limit_open=1)
    for time, name in enumerate("xyz"):
        told.arrived(time, name, dispatch(name, A))
        told.arrived(time, "too-many", dispatch("too-many", B))
        told.finished(time + 0.5, name)
        told.finished(time + 0.5, "too-many")
    assert [record.id for record in told.ledger.records] == ["y", "z"]
    assert (told.ledger.overlooked, told.ledger.open_requests) == (3, 0)


def test_a_record_is_found_by_its_request() -> None:
    """The latest record of an id is found; an open or unknown one is not."""
    told = Told()
    for time in (0.0, 10.0):
        told.arrived(time, "r", dispatch("r", A))
        told.finished(time + 1.0, "r")
    told.arrived(20.0, "open", dispatch("open", A))
    found = told.ledger.find(RequestId("r"))
    assert found is not None
    assert found.arrived_at == 10.0
    assert told.ledger.find(RequestId("open")) is None


def test_who_was_refused_hears_why_and_so_does_the_record() -> None:
    """The class of the error and its sentence; a request that was served has none."""
    told = Told()
    told.arrived(0.0, "r", refuse("r", QueueFull("The queue is full.")))
    told.arrived(0.0, "s", dispatch("s", A))
    told.finished(1.0, "s")
    assert [record.error for record in told.ledger.records] == ["QueueFull: The queue is full.", ""]


NAMES = [RequestId(f"r{number}") for number in range(4)]
attempts = st.builds(AttemptId, st.sampled_from(NAMES), st.integers(1, 3))
ERRORS: list[PairproxyError] = [QueueFull("f"), BrokenReply("b"), ModelNotFound("m"), SlotsTaken("s")]
events = st.one_of(
    st.builds(lambda name: RequestArrived(0.0, asked(name)), st.sampled_from(NAMES)),
    st.builds(lambda name: RequestAbandoned(0.0, name), st.sampled_from(NAMES)),
    st.builds(lambda attempt: FirstByteReceived(0.0, attempt), attempts),
    st.builds(
        lambda attempt, end: AttemptFinished(0.0, attempt, end, Usage()), attempts, st.sampled_from(Outcome)
    ),
    st.builds(lambda attempt, error: AttemptFailed(0.0, attempt, error), attempts, st.sampled_from(ERRORS)),
)
commands = st.one_of(
    st.builds(
        lambda attempt, node: dispatch(attempt.request, node, attempt.number),
        attempts,
        st.sampled_from([A, B]),
    ),
    st.builds(refuse, st.sampled_from(NAMES), st.sampled_from(ERRORS)),
    st.builds(enqueue, st.sampled_from(NAMES)),
)


@given(st.lists(st.tuples(events, st.lists(commands, max_size=3)), max_size=60))
def test_every_arrival_ends_exactly_once(story: list[tuple[Event, list[Command]]]) -> None:
    """Whatever is told in whatever order, each arrival is one record, or open, or counted as overlooked."""
    ledger = Ledger()
    for event, led_to in story:
        ledger.record(event, led_to)
    arrivals = Counter(event.request.id for event, _ in story if isinstance(event, RequestArrived))
    assert len(ledger.records) + ledger.open_requests + ledger.overlooked == arrivals.total()
    for name in NAMES:
        ledger.record(RequestAbandoned(1.0, name), [])
    assert ledger.open_requests == 0
    ended = Counter(record.id for record in ledger.records)
    assert ended.total() + ledger.overlooked == arrivals.total()
    assert ended <= arrivals
    for record in ledger.records:
        assert all(one.ended_at >= one.dispatched_at for one in record.attempts)
        assert record.latency_s >= record.queue_s >= 0.0


def test_who_follows_hears_each_record_once() -> None:
    """As it is kept, with its decision, when its request ends and not before."""
    told = Told()
    heard: list[str] = []
    told.ledger.follow(lambda record: heard.append(record.id))
    told.arrived(0.0, "r", dispatch("r", A))
    told.arrived(1.0, "q", refuse("q", QueueFull("f")))
    assert heard == ["q"]
    told.finished(2.0, "r")
    assert heard == ["q", "r"]

"""What is left to ask for of a reply that lost its node, and the conversation with the scheduler about it."""

from dataclasses import replace

from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.commands import Command, Dispatch, Refuse
from pairproxy.core.continuing import final_error, rest_of
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import BrokenReply, Moved, ReplyTruncated, UpstreamBusy
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    EngineReported,
    Event,
    FirstByteReceived,
    NodeReported,
    ReplyBroken,
    RequestAbandoned,
    RequestArrived,
    TimePassed,
)
from pairproxy.core.models import AttemptId, NodeId, Outcome, Replica, RequestId, Usage
from pairproxy.core.rules import Rules
from pairproxy.core.scheduler import Scheduler
from tests.core.told import A, B, C, M, ask, document, report

SAME = Replica(M, "sha256:1")


def dispatched(commands: list[Command]) -> list[Dispatch]:
    """Those that send a request."""
    return [command for command in commands if isinstance(command, Dispatch)]


class Talk:
    """A scheduler with its ledger; every event a second later than the last."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.scheduler = Scheduler(A, rules)
        self.ledger = Ledger()
        self.at = 0.0

    def tell(self, event: Event) -> list[Command]:
        self.at = event.at
        commands = self.scheduler.handle(event)
        self.ledger.record(event, commands)
        return commands

    def hear(self, node: NodeId, sequence: int, *, goes_on: bool = True, identity: str = "sha256:1") -> None:
        state = document(node, sequence=sequence, identity=identity, continues=goes_on)
        self.tell(NodeReported(self.at, state))

    def begin(self, limit: int | None = 100) -> AttemptId:
        """A request whose reply has begun to come."""
        (attempt,) = dispatched(self.tell(RequestArrived(self.at, ask("r", limit=limit))))
        self.tell(FirstByteReceived(self.at + 0.5, attempt.attempt))
        return attempt.attempt

    def breaks(self, attempt: AttemptId, tokens: int) -> list[Command]:
        return self.tell(ReplyBroken(self.at + 1.0, attempt, tokens))


def test_the_rest_is_shorter_by_what_was_delivered_and_its_prompt_longer() -> None:
    """What was delivered is prompt now, and counts against the client's limit; the same replica goes on."""
    rest = rest_of(ask("r", prompt=100, limit=50), SAME, 20)
    assert rest is not None
    assert (rest.prompt_tokens, rest.max_output_tokens, rest.begun) == (120, 30, SAME)
    again = rest_of(rest, Replica(M, "sha256:2"), 30)
    assert again is not None
    assert (again.prompt_tokens, again.max_output_tokens, again.begun) == (150, 1, SAME)


def test_there_is_no_rest_for_a_guest_and_for_what_nobody_can_name() -> None:
    """A peer's request goes on at its origin; a model without an identity equals nobody's."""
    assert rest_of(ask("r", origin=B), SAME, 3) is None
    assert rest_of(ask("r"), None, 3) is None
    assert rest_of(ask("r"), Replica(M, ""), 3) is None


def test_what_was_delivered_makes_every_later_end_a_truncation() -> None:
    """An error after a part of the reply is truncated, whatever the last attempt said."""
    rest = rest_of(ask("r"), SAME, 3)
    assert rest is not None
    assert isinstance(final_error(rest, BrokenReply("It broke.")), ReplyTruncated)
    assert isinstance(final_error(ask("r"), BrokenReply("It broke.")), BrokenReply)


def test_a_broken_reply_goes_on_at_the_node_that_can() -> None:
    """F6: the rest goes to the peer that goes on with texts, not to this node, which was not seen to."""
    talk = Talk()
    talk.hear(B, 1)
    talk.hear(C, 1)
    attempt = talk.begin()
    talk.tell(EngineReported(talk.at, report(4)))
    (on,) = dispatched(talk.breaks(attempt, 30))
    assert on.decision.place.node in {B, C}
    assert on.attempt.number == 2
    talk.tell(FirstByteReceived(talk.at, on.attempt))
    talk.tell(AttemptFinished(talk.at, on.attempt, Outcome.DONE, Usage(130, None, 70)))
    (record,) = talk.ledger.records
    assert (record.outcome, record.continued, record.usage) == (Outcome.DONE, 1, Usage(100, None, 100))
    assert [one.end for one in record.attempts] == ["broken", "done"]
    assert record.ttft_s == 0.5, "what the client saw first came from the first node"
    assert [service.output_tokens for service in record.services()] == [30, 70]
    assert not len(talk.scheduler.running)


def test_this_node_goes_on_where_its_engine_was_seen_to() -> None:
    """A local engine takes the rest of a peer's reply."""
    talk = Talk()
    talk.hear(B, 1)
    attempt = talk.begin()
    here: EngineReport = replace(report(1), continuing=frozenset({M}))
    talk.tell(EngineReported(talk.at, here))
    (on,) = dispatched(talk.breaks(attempt, 30))
    assert on.decision.place.node == A


def test_the_rest_may_go_where_the_request_was_taken_back_from() -> None:
    """A node that lost a request to a faster one has failed nobody: it goes on where that one is lost."""
    talk = Talk()
    talk.hear(B, 1)
    talk.hear(C, 1)
    (slow,) = dispatched(talk.tell(RequestArrived(0.0, ask("r"))))
    (fast,) = dispatched(talk.tell(AttemptFailed(0.1, slow.attempt, Moved("It is done sooner there."))))
    assert fast.decision.place != slow.decision.place
    talk.tell(FirstByteReceived(0.2, fast.attempt))
    (on,) = dispatched(talk.breaks(fast.attempt, 30))
    assert on.decision.place == slow.decision.place


def test_only_the_same_replica_goes_on() -> None:
    """A node with another content under the name does not go on, though it could."""
    talk = Talk()
    talk.hear(B, 1)
    attempt = talk.begin()
    talk.hear(C, 1, identity="sha256:2")
    (refusal,) = talk.breaks(attempt, 30)
    assert isinstance(refusal, Refuse)
    assert isinstance(refusal.error, ReplyTruncated)
    assert talk.ledger.records[0].outcome is Outcome.TRUNCATED
    assert talk.ledger.records[0].continued == 0


def test_an_old_node_is_not_asked_for_the_rest() -> None:
    """A state document that says nothing of it comes from a node that cannot."""
    talk = Talk()
    talk.hear(B, 1)
    attempt = talk.begin()
    talk.hear(C, 1, goes_on=False)
    assert isinstance(talk.breaks(attempt, 30)[0], Refuse)


def test_the_rest_waits_for_a_busy_node_before_all_others() -> None:
    """It had its turn: when the only node that can is free again, it goes there first, however late it is."""
    talk = Talk(Rules(queue_timeout_s=30.0))
    talk.hear(B, 1)
    attempt = talk.begin()
    talk.hear(C, 1)
    (other,) = dispatched(talk.tell(RequestArrived(talk.at, ask("other", limit=10))))
    assert other.decision.place.node == C
    talk.tell(RequestArrived(talk.at, ask("late", limit=10)))
    for second in range(1, 29):
        talk.hear(C, 1 + second)
        talk.at = float(second)
    talk.breaks(attempt, 5)
    talk.tell(TimePassed(45.0))  # more than the patience since it came, less than since it broke
    assert not [one for one in talk.ledger.records if one.id == "r"]
    talk.hear(C, 40)
    placed = dispatched(
        talk.tell(AttemptFinished(talk.at, other.attempt, Outcome.DONE, Usage(output_tokens=9)))
    )
    assert [one.attempt.request for one in placed][:1] == ["r"]


def test_as_many_nodes_are_tried_as_before_the_first_byte() -> None:
    """limits.attempts counts the nodes in all: the third loss ends it, as truncated."""
    talk = Talk(Rules(attempts=2))
    talk.hear(B, 1)
    talk.hear(C, 1)
    talk.hear(NodeId("d"), 1)
    (on,) = dispatched(talk.breaks(talk.begin(), 30))
    talk.tell(FirstByteReceived(talk.at, on.attempt))
    (refusal,) = talk.breaks(on.attempt, 10)
    assert isinstance(refusal, Refuse)
    assert talk.ledger.records[0].outcome is Outcome.TRUNCATED
    assert talk.ledger.records[0].continued == 1


def test_a_rest_that_fails_everywhere_is_truncated_not_failed() -> None:
    """The client has a part of it: the second node's error before its first byte does not change that."""
    talk = Talk()
    talk.hear(B, 1)
    talk.hear(C, 1)
    (on,) = dispatched(talk.breaks(talk.begin(), 30))
    commands = talk.tell(AttemptFailed(talk.at, on.attempt, BrokenReply("It broke.")))
    assert isinstance(commands[0], Refuse)
    assert isinstance(commands[0].error, ReplyTruncated)
    assert talk.ledger.records[0].outcome is Outcome.TRUNCATED


def test_a_client_that_leaves_while_the_rest_waits_is_cancelled() -> None:
    """There is one outcome, and nothing is sent when a node comes free."""
    talk = Talk()
    talk.hear(B, 1)
    attempt = talk.begin()
    talk.hear(C, 1)
    (other,) = dispatched(talk.tell(RequestArrived(talk.at, ask("other"))))
    talk.breaks(attempt, 30)
    talk.tell(RequestAbandoned(talk.at, RequestId("r")))
    talk.hear(C, 2)
    assert not dispatched(talk.tell(AttemptFinished(talk.at, other.attempt, Outcome.DONE, Usage())))
    assert [one.outcome for one in talk.ledger.records] == [Outcome.CANCELLED, Outcome.DONE]


def test_a_busy_engine_is_waited_for_with_the_rest() -> None:
    """A 503 in answer to the rest costs no text: another node is asked."""
    talk = Talk()
    talk.hear(B, 1)
    talk.hear(C, 1)
    talk.hear(NodeId("d"), 1)
    (on,) = dispatched(talk.breaks(talk.begin(), 30))
    (next_one,) = dispatched(talk.tell(AttemptFailed(talk.at, on.attempt, UpstreamBusy("It is full."))))
    assert next_one.decision.place != on.decision.place

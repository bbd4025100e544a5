from dataclasses import fields, replace

import pytest

from pairproxy.admin.explaining import explain, find
from pairproxy.api.schema import Candidate
from pairproxy.core import models
from pairproxy.core.errors import BadRequest, BrokenReply, NotRemembered, QueueFull
from pairproxy.core.models import NodeId, Usage
from tests.core.accounting.conversation import A, B, Told, asked, dispatch, refuse


def told() -> Told:
    """Two requests that were served, a guest, one that was refused and one that still runs."""
    story = Told()
    for name in ("abc1", "abd2"):
        story.arrived(0.0, name, dispatch(name, A))
        story.answered(2.0, name)
        story.finished(9.0, name, usage=Usage(100, 64, 20))
    story.arrived(0.0, asked("guest", origin=B), dispatch("guest", A))
    story.finished(10.0, "guest")
    story.arrived(11.0, "full", refuse("full", QueueFull("The queue is full.")))
    story.arrived(12.0, "open", dispatch("open", A))
    return story


def test_a_request_is_found_by_its_id_or_its_beginning() -> None:
    """`last` is the last one of this machine's clients, not a guest's."""
    ledger = told().ledger
    assert find(ledger, "abc1").id == find(ledger, "abc").id == "abc1"
    assert find(ledger, "last").id == "full"
    assert find(ledger, "guest").origin == B


@pytest.mark.parametrize(
    ("wanted", "kind", "says"),
    [
        ("ab", BadRequest, "Several requests begin with 'ab'. Give more of the id"),
        ("zzz", NotRemembered, "`pairproxy report` lists the requests"),
        ("", NotRemembered, "No request by this id"),
    ],
)
def test_what_is_not_found_says_what_to_do(wanted: str, kind: type[Exception], says: str) -> None:
    """Too short, unknown, or nothing at all."""
    with pytest.raises(kind, match=says):
        find(told().ledger, wanted)
    with pytest.raises(NotRemembered, match="No request has ended since"):
        find(Told().ledger, "last")


def test_a_decision_is_told_with_what_came_of_it() -> None:
    """Every candidate with its terms; the prediction and the event on one clock, the request's own."""
    story = explain(find(told().ledger, "abc1"), {A: "anna"}, 20.0)
    assert (story.outcome, story.error, story.age_s, story.ended_s) == ("done", "", 11.0, 9.0)
    assert (story.prompt_tokens, story.cached_tokens, story.output_tokens) == (100, 64, 20)
    (attempt,) = story.attempts
    assert (attempt.node, attempt.policy, attempt.reason) == (A, "fastest-finish", "finishes first")
    assert (attempt.predicted_first_byte_s, attempt.first_byte_s) == (2.0, 2.0)
    assert (attempt.predicted_end_s, attempt.ended_s) == (9.0, 9.0)
    other, picked = attempt.candidates
    assert (other.node, picked.node) == ("other", A)
    assert (picked.wait_s, picked.prefill_s, picked.decode_s, picked.finish_s) == (1.0, 1.0, 7.0, 9.0)
    assert story.names == {A: "anna"}


def test_a_request_that_is_open_is_told_as_far_as_it_is() -> None:
    """Where it runs and why, or that it waits; what has not ended ends now. `last` is what ended last."""
    story = told()
    story.answered(13.0, "open")
    found = explain(find(story.ledger, "ope"), {A: "anna"}, 15.0)
    assert (found.request, found.outcome, found.error, found.age_s) == ("open", "running", "", 0.0)
    assert (found.queue_s, found.ended_s, found.output_tokens) == (0.0, 3.0, None)
    (attempt,) = found.attempts
    assert (attempt.end, attempt.node, attempt.first_byte_s, attempt.ended_s) == ("running", A, 1.0, 3.0)
    assert (attempt.predicted_end_s, len(attempt.candidates)) == (9.0, 2)
    story.failed(16.0, "open", BrokenReply("It broke off."))
    found = explain(find(story.ledger, "open"), {}, 20.0)
    assert (found.outcome, [one.end for one in found.attempts]) == ("waiting", ["BrokenReply"])
    story.arrived(21.0, "new")
    found = explain(find(story.ledger, "new"), {}, 22.0)
    assert (found.outcome, found.attempts, found.queue_s) == ("waiting", (), 1.0)
    assert find(story.ledger, "last").id == "full"


def test_all_attempts_are_told() -> None:
    """The one that failed says with which error, and none is left out."""
    story = Told()
    story.arrived(0.0, "r", dispatch("r", A))
    story.failed(2.0, "r", BrokenReply("It broke off."), dispatch("r", B, number=2))
    story.finished(6.0, "r", number=2)
    found = explain(story.only, {}, 6.0)
    assert [(one.number, one.node, one.end, one.dispatched_s) for one in found.attempts] == [
        (1, A, "BrokenReply", 0.0),
        (2, B, "done", 2.0),
    ]


def test_who_was_refused_hears_why() -> None:
    """Without any attempt there is no decision, only the reason."""
    found = explain(find(told().ledger, "full"), {}, 12.0)
    assert (found.outcome, found.error, found.attempts) == (
        "refused", "QueueFull: The queue is full.", ()
    )  # fmt: skip


def test_an_old_decision_is_forgotten_and_its_reason_is_not() -> None:
    """The record outlives the candidates."""
    story = Told(limit_decisions=0)
    story.arrived(0.0, "r", dispatch("r", NodeId("n")))
    story.finished(6.0, "r")
    (attempt,) = explain(story.only, {}, 6.0).attempts
    assert (attempt.policy, attempt.candidates, attempt.predicted_end_s) == (None, (), None)
    assert attempt.reason == "finishes first"


def test_every_term_of_a_price_is_told() -> None:
    """What the scheduler adds to a candidate, `explain` must show."""
    terms = {field.name for field in fields(models.Candidate) if field.name.endswith("_s")}
    assert terms <= set(Candidate.__struct_fields__)


def test_a_reply_in_one_piece_is_predicted_to_begin_when_it_ends() -> None:
    """There is no byte of it before."""
    story = Told()
    story.arrived(0.0, replace(asked("r"), is_streaming=False), dispatch("r", A, finish_s=7.0))
    story.finished(6.0, "r")
    found = explain(story.only, {}, 6.0)
    assert not found.is_streaming
    assert found.attempts[0].predicted_first_byte_s == found.attempts[0].predicted_end_s == 7.0

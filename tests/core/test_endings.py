"""Conversations about how requests end: clients leave, attempts fail, patience is over."""

import pytest

from pairproxy.core.commands import BreakOff
from pairproxy.core.errors import (
    BrokenReply,
    Draining,
    NodeGone,
    PairproxyError,
    QueueTimeout,
    SlotsTaken,
    Unreachable,
)
from pairproxy.core.events import DrainEnded, DrainStarted
from pairproxy.core.models import AttemptId, ModelName, Outcome, RequestId
from pairproxy.core.queue import NOWHERE_S
from pairproxy.core.rules import Rules
from tests.core.told import FAST, SLOW, A, B, C, Told, ask, document, only_dispatch, queued, refused, sent

OTHER = ModelName("other:latest")


def test_a_node_that_is_to_stop_ends_what_it_has_and_takes_nothing_new() -> None:
    """What runs and what waits goes on; who comes now is refused, local or not."""
    told = Told()
    told.arrives(ask("runs"))
    told.arrives(ask("waits"))
    told.arrives(ask("leaves"))
    assert told.tell(DrainStarted(told.at)) == []
    assert told.scheduler.is_draining
    assert refused(told.arrives(ask("late"))) == [("late", Draining)]
    assert refused(told.arrives(ask("b-r-1", origin=B))) == [("b-r-1", Draining)]
    assert told.leaves("leaves") == []
    assert sent(told.finishes("runs")) == [("waits", A)]


def test_what_waits_when_the_time_to_stop_has_come_is_refused() -> None:
    """Also what comes back later because its attempt failed, with the error of that one."""
    told = Told(speed=FAST)
    told.hears(document(B, rates=FAST))
    assert sent([*told.arrives(ask("one")), *told.arrives(ask("two"))]) == [("one", A), ("two", B)]
    told.arrives(ask("waits"))
    told.tell(DrainStarted(told.at))
    assert refused(told.tell(DrainEnded(told.at))) == [("waits", Draining)]
    assert (told.scheduler.waiting, told.scheduler.next_wakeup(told.at)) == (0, None)
    assert refused(told.fails("one", Unreachable("off"))) == [("one", Unreachable)]
    assert told.finishes("two") == []


def test_a_client_that_leaves_the_queue_is_never_served() -> None:
    """Its place in the queue is given up, and the next one comes in its turn."""
    told = Told()
    for name in ("r1", "r2", "r3"):
        told.arrives(ask(name))
    assert told.leaves("r2") == []
    assert sent(told.finishes("r1")) == [("r3", A)]


def test_a_slot_is_charged_until_its_engine_is_free_of_an_abandoned_request() -> None:
    """The client is gone, the engine may not know it yet: the next request waits for EngineSettled."""
    told = Told()
    told.arrives(ask("r1"))
    told.arrives(ask("r2"))
    assert told.leaves("r1", settled=False) == []
    assert sent(told.settles("r1")) == [("r2", A)]
    assert told.leaves("r2", settled=True) == []
    assert sent(told.arrives(ask("r3"))) == [("r3", A)]


@pytest.mark.parametrize("end", ["finishes", "fails"])
def test_a_slot_is_charged_after_a_reply_that_was_broken_off(end: str) -> None:
    """The same holds when the reply was truncated or broke before its first byte."""
    told = Told()
    told.arrives(ask("r1"))
    told.arrives(ask("r2"))
    if end == "finishes":
        assert sent(told.finishes("r1", outcome=Outcome.TRUNCATED, settled=False)) == []
    else:
        assert sent(told.fails("r1", BrokenReply("broke"), settled=False)) == []
    assert sent(told.settles("r1")) == [("r2", A)]


def test_a_peers_slot_is_its_owners_to_count() -> None:
    """What was given up at a peer is free for us at once; the peer refuses if it is not."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    told.arrives(ask("r1"))
    told.leaves("r1", settled=False)
    assert sent(told.arrives(ask("r2"))) == [("r2", B)]


def test_a_failed_attempt_goes_to_another_node() -> None:
    """Before its first byte a request is sent on, with the next number, and never to the same place."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    told.arrives(ask("r"))
    told.arrives(ask("waits"))
    commands = told.fails("r", Unreachable("gone"))
    assert sent(commands) == [("r", A)]
    assert only_dispatch(commands).attempt == AttemptId(RequestId("r"), 2)
    assert refused(told.fails("r", BrokenReply("broke"), 2)) == [("r", BrokenReply)]


def test_a_failed_attempt_comes_before_what_waits() -> None:
    """It has waited before all others, so the next slot is its own."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    told.arrives(ask("r1"))
    told.arrives(ask("r2", limit=400))
    told.hears(document(C, rates=FAST, frees=(0.5,)))
    assert queued(told.fails("r1", Unreachable("gone"))) == [("r1", 0)]
    assert sent(told.hears(document(C, rates=FAST)))[0] == ("r1", C)


def test_a_refused_slot_blames_nobody() -> None:
    """The slot went to somebody else: planned again as often as it takes, at a place that has a slot."""
    told = Told(speed=None, rules=Rules(attempts=2))
    told.hears(document(B))
    told.arrives(ask("r"))
    for number in range(1, 6):
        assert queued(told.fails("r", SlotsTaken("taken"), number)) == [("r", 0)]
        assert sent(told.passes(0.1)) == []
        assert sent(told.wakes()) == [("r", B)]


def test_news_of_a_free_slot_ends_the_wait_after_a_refusal() -> None:
    """A fresh document that shows a free slot is reason enough to ask again at once."""
    told = Told(speed=None)
    told.hears(document(B))
    told.arrives(ask("r"))
    told.fails("r", SlotsTaken("taken"))
    assert sent(told.hears(document(B, frees=(1.0,)))) == []
    assert sent(told.hears(document(B))) == [("r", B)]


def test_the_number_of_failures_is_limited() -> None:
    """After as many failures as the rules allow, the client gets the last error."""
    told = Told(speed=SLOW, rules=Rules(attempts=2))
    told.hears(document(B))
    told.hears(document(C))
    told.arrives(ask("r"))
    assert len(sent(told.fails("r", Unreachable("one")))) == 1
    assert refused(told.fails("r", BrokenReply("two"), 2)) == [("r", BrokenReply)]


@pytest.mark.parametrize("error", [BrokenReply("gone"), PairproxyError("ours")])
def test_a_request_that_no_other_place_can_take_fails(error: PairproxyError) -> None:
    """The only place failed, or the error allows no second try: the client is told, the slot is free."""
    told = Told()
    if not error.may_retry:
        told.hears(document(B, rates=SLOW))
    told.arrives(ask("r"))
    assert refused(told.fails("r", error)) == [("r", type(error))]
    assert sent(told.arrives(ask("s"))) != []


def test_a_failing_node_is_left_alone_for_a_while() -> None:
    """After a failure the next requests go elsewhere, until its time is over."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    told.arrives(ask("r1"))
    told.fails("r1", Unreachable("gone"))
    told.finishes("r1", 2)
    assert sent(told.arrives(ask("r2"))) == [("r2", A)]
    told.finishes("r2")
    told.passes(1.1)
    assert sent(told.arrives(ask("r3"))) == [("r3", B)]


def test_the_attempts_at_a_lost_node_are_broken_off() -> None:
    """Nobody waits for a node that is silent: its attempts end, and what was not begun goes elsewhere."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST, slots=2))
    told.arrives(ask("r1"))
    told.arrives(ask("r2"))
    told.begins("r2")
    commands = told.loses(B)
    assert [(one.attempt.request, type(one.error)) for one in commands if isinstance(one, BreakOff)] == [
        ("r1", NodeGone), ("r2", NodeGone),
    ]  # fmt: skip
    assert sent(told.fails("r1", NodeGone("gone"))) == [("r1", A)]
    assert told.finishes("r2", outcome=Outcome.TRUNCATED) == []


@pytest.mark.parametrize("timeout_s", [0.5, 5.0, 600.0])
def test_patience_ends_when_the_rules_say(timeout_s: float) -> None:
    """A request that waited as long as the rules allow is refused, not later and not sooner."""
    told = Told(rules=Rules(queue_timeout_s=timeout_s))
    told.arrives(ask("r1"))
    told.arrives(ask("r2"))
    assert told.passes(timeout_s * 0.9) == []
    assert refused(told.wakes()) == [("r2", QueueTimeout)]
    assert told.at == timeout_s
    assert told.scheduler.next_wakeup(told.at) is None


def test_a_model_whose_only_node_is_silent_is_waited_for_but_not_long() -> None:
    """It may be back at once, so the request waits; counted from when it went, whenever the request came."""
    told = Told(rules=Rules(queue_timeout_s=60.0))
    told.hears(document(B, model=OTHER, frees=(50.0,)))
    told.arrives(ask("r", model=OTHER))
    for _ in range(20):
        told.at += 1.0
        told.hears(document(B, model=OTHER, frees=(50.0,)))
    told.at += 4.0  # stale since one second
    assert told.arrives(ask("s")) != []
    silent_since = told.at
    assert refused(told.wakes()) == [("r", QueueTimeout)]
    assert told.at == silent_since + NOWHERE_S


def test_a_request_whose_last_place_went_away_does_not_wait_for_the_one_that_failed() -> None:
    """A place that failed is no reason to be patient."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST, frees=(30.0,)))
    told.arrives(ask("r"))
    told.fails("r", BrokenReply("broke"))
    told.loses(B)
    assert refused(told.wakes()) == [("r", BrokenReply)]
    assert told.at == NOWHERE_S

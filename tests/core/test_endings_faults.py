"""Conversations about places that fail: who is asked next, how often, and for how long a request waits."""

from collections import Counter

import pytest

from pairproxy.core.avoidance import AVOID_FIRST_S, REFUSALS
from pairproxy.core.commands import Command
from pairproxy.core.errors import (
    BrokenReply,
    PairproxyError,
    QueueTimeout,
    SlotsTaken,
    Unreachable,
    UpstreamBusy,
)
from pairproxy.core.events import EngineLost
from pairproxy.core.models import ModelName, NodeId, Outcome
from pairproxy.core.queue import FULL_S, NOWHERE_S
from pairproxy.core.rules import Rules
from tests.core.told import FAST, GPU, SLOW, A, B, C, Told, ask, at, document, queued, refused, sent

D, E = NodeId("d"), NodeId("e")


def test_the_last_try_is_made_here() -> None:
    """F1, F4: whoever else fails, this machine is here; however much faster the next peer may be."""
    told = Told(speed=SLOW, rules=Rules(attempts=3))
    for node in (B, C, D, E):
        told.hears(document(node, rates=FAST))
    told.arrives(ask("r"))
    assert sent(told.fails("r", Unreachable("one")))[0][1] != A
    assert sent(told.fails("r", BrokenReply("two"), 2)) == [("r", A)]
    assert refused(told.fails("r", BrokenReply("three"), 3)) == [("r", BrokenReply)]


@pytest.mark.parametrize("is_here", [True, False], ids=["here", "at a peer"])
def test_the_only_place_may_be_started_anew(is_here: bool) -> None:
    """F18: where nothing answers a request looks again, twice a second at most, for ten seconds."""
    told = Told(speed=SLOW if is_here else None)
    if not is_here:
        told.hears(document(B))
    commands = told.arrives(ask("r"))
    told.fails("r", Unreachable("off"))
    tries, number = 1, 2
    while told.scheduler.waiting and told.at < 30.0:
        if not is_here:
            told.hears(document(B, sequence=number))
        commands = told.wakes()
        for _ in sent(commands):
            tries += 1
            commands = told.fails("r", Unreachable("off"), tries)
        number += 1
    assert 10.0 <= told.at <= 11.0
    assert 10 <= tries <= 2 * told.at + 1
    assert refused(commands) == [("r", QueueTimeout)]


def test_who_is_full_is_asked_by_one_at_a_time_and_ever_less_often() -> None:
    """F11: three wait for an engine with four slots that says 503: six questions a minute, not hundreds."""
    told, tries = Told(slots=4), 0
    ended: list[tuple[str, type[PairproxyError]]] = []
    commands: list[Command] = [*told.arrives(ask("r1")), *told.arrives(ask("r2")), *told.arrives(ask("r3"))]
    numbers: Counter[str] = Counter()
    while told.at < 70.0:
        ended += refused(commands)
        names, commands = [name for name, _ in sent(commands)], []
        assert len(names) <= 1 or told.at == 0.0
        for name in names:
            tries += 1
            numbers[name] += 1
            commands += told.fails(name, UpstreamBusy("full"), numbers[name])
        if not commands and not names:
            if told.scheduler.next_wakeup(told.at) is None:
                break
            commands = told.wakes()
    assert sorted(ended) == [(name, QueueTimeout) for name in ("r1", "r2", "r3")]
    assert tries <= 9
    assert told.at == pytest.approx(FULL_S, abs=1.0)


def test_the_first_reply_of_an_engine_that_was_full_lets_the_others_in() -> None:
    """F11: what waits behind the one that tries goes as soon as that one has its first byte."""
    told = Told(slots=3)
    for name in ("r1", "r2", "r3"):
        told.arrives(ask(name))
    for name in ("r1", "r2", "r3"):
        told.fails(name, UpstreamBusy("full", retry_after_s=2))
    tried: list[tuple[str, NodeId]] = []
    while not tried:
        tried = sent(told.wakes())
    assert len(tried) == 1
    assert told.at == 2.0
    assert len(sent(told.begins(tried[0][0], 2))) == 2


def test_a_request_that_has_another_place_does_not_wait_for_one_that_is_full() -> None:
    """F11: it goes there at once; and waits its usual time for a slot where it is only busy."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    assert sent(told.arrives(ask("r1", limit=10))) == [("r1", B)]
    assert sent(told.fails("r1", UpstreamBusy("full"))) == [("r1", A)]
    told.arrives(ask("r2", local_only=True))
    told.passes(FULL_S + 1.0)
    assert told.scheduler.waiting == 1


def test_a_peer_whose_replies_break_off_is_avoided_for_a_growing_time() -> None:
    """F6, F16: a first byte does not make up for it; a reply that ends well does."""
    told = Told(speed=SLOW)
    for number in range(1, 4):
        told.hears(document(B, rates=FAST, sequence=number))
        told.at = 100.0 * number
        told.hears(document(B, rates=FAST, sequence=10 * number))
        assert sent(told.arrives(ask(f"r{number}"))) == [(f"r{number}", B)]
        told.begins(f"r{number}")
        told.finishes(f"r{number}", outcome=Outcome.TRUNCATED)
        left_alone_s = AVOID_FIRST_S * 2 ** (number - 1)
        assert sent(told.arrives(ask(f"s{number}"))) == [(f"s{number}", A)]
        told.finishes(f"s{number}")
        told.at += left_alone_s - 0.5
        assert told.scheduler._knows.avoidance.is_avoided(at(B), told.at)
        assert not told.scheduler._knows.avoidance.is_avoided(at(B), told.at + 0.5)


def test_a_peer_that_has_the_model_no_more_is_not_asked_for_it_again() -> None:
    """F12: its inventory was old; until the next one others are preferred, from then on it is no place."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    assert sent(told.arrives(ask("r"))) == [("r", B)]
    assert sent(told.fails("r", BrokenReply("It has no such model."))) == [("r", A)]
    told.finishes("r", 2)
    assert sent(told.arrives(ask("s"))) == [("s", A)]
    told.finishes("s")
    told.at += 10.0
    told.hears(document(B, rates=FAST, model=ModelName("other:latest"), sequence=2))
    assert sent(told.arrives(ask("t"))) == [("t", A)]


@pytest.mark.parametrize("is_lost_first", [True, False])
def test_it_is_the_same_when_the_monitor_has_seen_it_too(is_lost_first: bool) -> None:
    """F18: 503 after ten seconds, whoever noticed first that the engine is gone."""
    told = Told(speed=SLOW)
    told.arrives(ask("r"))
    if is_lost_first:
        told.tell(EngineLost(told.at, GPU))
    assert queued(told.fails("r", Unreachable("off"))) == [("r", 0)]
    if not is_lost_first:
        told.tell(EngineLost(told.at, GPU))
    assert told.passes(NOWHERE_S - 0.1) == []
    assert refused(told.passes(0.1)) == [("r", QueueTimeout)]


def test_a_peer_that_lies_about_its_slots_is_asked_so_many_times() -> None:
    """F11: it publishes free slots and refuses each request: sixteen round trips, then the other place."""
    told, tries = Told(speed=SLOW), 0
    told.hears(document(B, rates=FAST))
    commands = told.arrives(ask("r"))
    while (placed := sent(commands)) != [("r", A)]:
        if placed:
            tries += 1
            commands = told.fails("r", SlotsTaken("taken"), tries)
        else:
            told.at += 0.5
            commands = told.hears(document(B, rates=FAST, sequence=tries + 1))
    assert 2 <= tries <= REFUSALS + 1

"""Conversations with an owner of slots that several origins want."""

from dataclasses import replace

from pairproxy.core.commands import BreakOff
from pairproxy.core.documents import EngineState, Wanted
from pairproxy.core.errors import NodeGone, SlotsTaken
from pairproxy.core.events import DrainStarted, EngineReported
from pairproxy.core.models import NodeId
from pairproxy.core.promises import PROMISE_S
from pairproxy.core.sharing import ALONE_S, STARVING_S
from tests.core.told import FAST, SLOW, A, B, C, M, Told, ask, document, queued, refused, report, sent


def state(told: Told, reader: NodeId) -> EngineState:
    """A's engine as its document for a reader shows it now."""
    return told.scheduler.document_for(reader, "epoch", 1, "name", told.at).engines[0]


def promised(told: Told) -> list[NodeId]:
    """Who was promised a slot of A's."""
    return [one.origin for one in state(told, B).promises]


class Owner(Told):
    """A, and peers that tell it what they wait for."""

    def __init__(self, slots: int = 1) -> None:
        super().__init__(slots=slots, speed=FAST)
        self._sequence = 0

    def wants(
        self,
        origin: NodeId,
        count: int,
        yours: int = 0,
        age: float = 0.0,
        epoch: str = "1",
        prefixes: tuple[int, ...] = (),
    ) -> None:
        """A peer without slots tells what it waits for, and how much of it at A."""
        self._sequence += 1
        wanted = (Wanted(M, count, 100.0 * count, 100.0 * count, age, prefixes, yours),) if count else ()
        told = document(origin, rates=SLOW, frees=(60.0,), epoch=epoch, sequence=self._sequence)
        self.hears(replace(told, wanted=wanted))


def test_who_asks_is_promised_a_free_slot_and_others_are_refused() -> None:
    """The news is pressing for the one; the other's request finds the slot taken until the promise lapses."""
    owner = Owner()
    owner.wants(C, 0)
    owner.wants(B, 1, yours=1)
    assert promised(owner) == [B]
    assert B in owner.scheduler.pressing
    assert refused(owner.arrives(ask("c-r-1", origin=C))) == [("c-r-1", SlotsTaken)]
    assert sent(owner.arrives(ask("b-r-1", origin=B))) == [("b-r-1", A)]
    assert promised(owner) == []


def test_a_promise_that_is_not_used_lapses_by_itself() -> None:
    """The scheduler wants to be woken for it, and whoever else asked has its turn."""
    owner = Owner()
    owner.wants(B, 1, yours=1, age=3.0)
    owner.wants(C, 1, yours=1)
    assert promised(owner) == [B]
    owner.wakes()
    assert owner.at == PROMISE_S
    assert promised(owner) == [C]


def test_a_slot_that_comes_free_goes_to_one_of_those_who_wait() -> None:
    """Also when none of them asked for this very node: it is known at once, not a round of messages later."""
    owner = Owner()
    owner.arrives(ask("own"))
    owner.wants(B, 3, age=1.0)
    owner.wants(C, 3, age=4.0)
    assert promised(owner) == []
    owner.finishes("own")
    assert promised(owner) == [C]
    owner.arrives(ask("c-r-1", origin=C))
    owner.finishes("c-r-1")
    assert promised(owner) == [B]


def test_whose_prompt_is_in_the_cache_here_comes_first() -> None:
    """Of those who waited alike; the rest of its prompt is read sooner here than anybody's elsewhere."""
    owner = Owner()
    owner.arrives(replace(ask("own"), prefix=(1, 2, 3)))
    owner.begins("own")
    owner.wants(B, 1)
    owner.wants(C, 1, prefixes=(2,))
    owner.finishes("own")
    assert promised(owner) == [C]


def test_nothing_is_promised_when_only_one_waits() -> None:
    """It may come or not; nobody has to be kept away for it."""
    owner = Owner()
    owner.arrives(ask("own"))
    owner.wants(B, 3)
    owner.finishes("own")
    assert promised(owner) == []


def test_own_clients_come_before_guests() -> None:
    """What the plan of this node uses is not promised, however long a guest asked for it, if not too long."""
    owner = Owner()
    owner.arrives(ask("own1"))
    owner.arrives(ask("own2"))
    owner.wants(B, 1, yours=1, age=STARVING_S / 2)
    assert sent(owner.finishes("own1")) == [("own2", A)]
    owner.finishes("own2")
    assert promised(owner) == [B]


def test_own_clients_take_a_slot_that_a_guest_was_promised_unasked() -> None:
    """It comes free, and the guests only wait for the model; our client does not wait for them to say no."""
    owner = Owner()
    owner.arrives(ask("own1"))
    owner.wants(B, 3)
    owner.wants(C, 3)
    owner.finishes("own1")
    assert len(promised(owner)) == 1
    assert sent(owner.arrives(ask("own2"))) == [("own2", A)]
    assert promised(owner) == []


def test_a_guest_that_starves_gets_a_slot_before_own_clients() -> None:
    """One; the next is theirs again."""
    owner = Owner()
    for number in range(3):
        owner.arrives(ask(f"own{number}"))
    owner.wants(B, 2, yours=2, age=STARVING_S * 2)
    assert sent(owner.finishes("own0")) == []
    assert promised(owner) == [B]
    assert sent(owner.arrives(ask("b-r-1", origin=B))) == [("b-r-1", A)]
    assert sent(owner.finishes("b-r-1")) == [("own1", A)]


def test_own_clients_wait_no_longer_than_a_promise_lasts() -> None:
    """A guest that starved and does not come holds them up for a moment only."""
    owner = Owner()
    owner.arrives(ask("own0"))
    assert queued(owner.arrives(ask("own1"))) == [("own1", 0)]
    owner.wants(B, 1, yours=1, age=STARVING_S * 2)
    owner.finishes("own0")
    assert sent(owner.wakes()) == [("own1", A)]
    assert owner.at == PROMISE_S


def test_an_origin_alone_need_not_ask() -> None:
    """From its first request until somebody else comes; then both hear of it at once."""
    owner = Owner(slots=2)
    assert not state(owner, B).asks, "nothing is heard of it, so it would ask in vain"
    owner.wants(B, 0)
    owner.wants(C, 0)
    assert state(owner, B).asks
    owner.arrives(ask("b-r-1", origin=B))
    assert not state(owner, B).asks
    assert state(owner, C).asks
    owner.wants(C, 1, yours=1)
    assert owner.scheduler.pressing == [B, C]
    assert state(owner, B).asks
    owner.at = ALONE_S / 2
    owner.wants(B, 0)
    owner.wants(C, 0)
    assert state(owner, B).asks
    owner.at = ALONE_S
    owner.wants(B, 0)
    assert not state(owner, B).asks


def test_who_waits_for_the_model_makes_others_ask() -> None:
    """A slot that one origin has used for long goes to whoever waited; it is no longer its own."""
    owner = Owner()
    owner.wants(B, 0)
    assert owner.scheduler.pressing == [B], "it cannot know yet that it has to ask"
    owner.arrives(ask("b-r-1", origin=B))
    owner.at = ALONE_S * 2
    owner.wants(B, 1)
    assert not state(owner, B).asks
    owner.wants(C, 1)
    assert state(owner, B).asks
    owner.finishes("b-r-1")
    assert promised(owner) == [C]


def test_who_wants_nothing_any_more_is_promised_nothing() -> None:
    """What it was promised goes to the next, as soon as its document cannot have crossed the promise."""
    owner = Owner()
    owner.wants(B, 1, yours=1, age=3.0)
    owner.wants(C, 1, yours=1)
    owner.wants(B, 0)
    assert promised(owner) == [B], "its request may be under way"
    owner.at = 0.1
    owner.wants(B, 0)
    assert promised(owner) == [C]


def test_a_peer_that_restarts_is_promised_nothing_from_its_last_life() -> None:
    """Whatever it wanted, it knows nothing of it."""
    owner = Owner()
    owner.wants(B, 1, yours=1)
    owner.wants(B, 0, epoch="2")
    assert promised(owner) == []


def test_what_ran_on_a_peer_that_restarts_is_broken_off_at_once() -> None:
    """But not what already came to its new life."""
    told = Told(speed=None)
    told.hears(document(B, slots=3))
    told.arrives(ask("old"))
    told.at = 1.0
    told.arrives(ask("new"))
    reborn = document(B, slots=3, epoch="2")
    reborn = replace(reborn, engines=(replace(reborn.engines[0], yours=1),))
    (command,) = told.hears(reborn)
    assert isinstance(command, BreakOff)
    assert (command.attempt.request, type(command.error)) == ("old", NodeGone)


def test_a_late_document_of_a_life_that_is_over_is_not_believed() -> None:
    """It came on another connection."""
    told = Told(speed=None)
    told.hears(document(B, slots=1, epoch="1"))
    told.hears(document(B, slots=2, epoch="2"))
    told.hears(document(B, slots=3, epoch="1", sequence=9))
    assert [one.engines[0].slots for one, _ in told.scheduler.nodes.documents(0.0)] == [2]


def test_a_draining_node_promises_nothing() -> None:
    """It would refuse."""
    owner = Owner()
    owner.tell(DrainStarted(0.0))
    owner.wants(B, 1, yours=1)
    assert promised(owner) == []


def test_slots_that_are_no_longer_there_are_not_promised() -> None:
    """An engine that shrinks, or has more running than slots, has none free."""
    owner = Owner(slots=2)
    owner.arrives(ask("own1"))
    owner.arrives(ask("own2"))
    owner.tell(EngineReported(0.0, report(1)))
    owner.wants(B, 2, yours=2)
    assert promised(owner) == []
    owner.finishes("own1")
    assert promised(owner) == []
    owner.finishes("own2")
    assert promised(owner) == [B]

"""Conversations between the two sides of a pairing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.handshake import ELEMENT_BYTES, TRIES, Host, Invitation, Joiner
from pairproxy.core.handshake_steps import Failed, Reason, Send, Settled, Store, Told, Undo, refusal
from tests.core.handshaking import Conversation, ToyCards, ToyCiphers, ToyPake


def test_with_the_right_code_both_store_the_other() -> None:
    """H01: both accept the other's card, store it and know that the other has; the code is used."""
    told = Conversation()
    told.run()
    for side in (told.host, told.joiner):
        assert told.keeps(side)
        assert side.is_settled
        assert Settled() in told.steps[side]
        assert told.failure(side) is None
    assert told.invitation.is_used
    assert told.invitation.tries_left == TRIES - 1


def test_a_wrong_code_is_told_on_both_sides_and_counted() -> None:
    """H02: nothing is stored, both know the reason and how many tries are left."""
    told = Conversation(typed=b"wrong")
    told.run()
    assert told.is_nothing_kept
    assert told.failure(told.host) == Failed(Reason.CODE, False, TRIES - 1)
    assert told.failure(told.joiner) == Failed(Reason.CODE, True, TRIES - 1)


def test_after_three_tries_the_right_code_is_refused_too() -> None:
    """H03: the fourth exchange is answered with "closed" before an element is."""
    invitation = Invitation()
    for _ in range(TRIES):
        Conversation(typed=b"wrong", invitation=invitation).run()
    told = Conversation(invitation=invitation)
    told.run()
    assert told.is_nothing_kept
    assert told.failure(told.joiner) == Failed(Reason.CLOSED, True, 0)
    assert len(told.messages) == 2


def test_a_code_is_good_for_one_success() -> None:
    """H04: a second join after the first is answered with "closed"."""
    invitation = Invitation()
    Conversation(invitation=invitation).run()
    again = Conversation(invitation=invitation)
    again.run()
    assert again.failure(again.joiner) == Failed(Reason.CLOSED, True, TRIES - 1)
    assert again.is_nothing_kept


@pytest.mark.parametrize("cut", range(7))
def test_a_cut_before_both_have_settled_leaves_nothing(cut: int) -> None:
    """H05: whichever message is the last that does not arrive, nothing stays stored, and the try counts."""
    told = Conversation()
    told.run(lambda number, message: None if number == cut else message)
    assert told.is_nothing_kept
    assert told.invitation.tries_left == (TRIES - 1)


def test_a_cut_of_the_last_word_is_the_one_that_cannot_be_known() -> None:
    """The host has settled and keeps the joiner; the joiner, left without the last word, keeps nothing."""
    told = Conversation()
    told.run(lambda number, message: None if number == 7 else message)
    assert told.keeps(told.host)
    assert not told.keeps(told.joiner)


@pytest.mark.parametrize("length", [0, 1, 20, 32, 34])
def test_an_element_of_another_length_is_refused_and_counted(length: int) -> None:
    """H06: exactly 33 bytes, whatever the exchange of keys itself would take."""
    told = Conversation()
    steps = told.host.receive(b"pairproxy/1 " + b"T" * length)
    assert Failed(Reason.BROKEN, tries_left=TRIES - 1) in steps
    assert told.joiner.start()
    assert Failed(Reason.BROKEN) in told.joiner.receive(b"E" + b"T" * length)


def test_a_reflected_message_is_refused() -> None:
    """H08: a side that gets its own message back ends the exchange."""
    told = Conversation()
    (hello,) = told.joiner.start()
    assert isinstance(hello, Send)
    assert Failed(Reason.BROKEN) in told.joiner.receive(b"E" + hello.message[-ELEMENT_BYTES:])
    (answer,) = told.host.receive(hello.message)
    assert isinstance(answer, Send)
    assert Failed(Reason.BROKEN, tries_left=2) in told.host.receive(answer.message)


@pytest.mark.parametrize("number", range(8))
def test_a_changed_bit_in_any_message_leaves_nothing(number: int) -> None:
    """H09: a relay that flips a bit makes the exchange fail, and the deceived side keeps nothing."""
    told = Conversation()
    told.run(lambda n, message: message[:-1] + bytes([message[-1] ^ 1]) if n == number else message)
    assert not told.keeps(told.joiner)
    assert told.failure(told.joiner) is not None
    assert told.keeps(told.host) == (number == 7)  # the last word of a host that has settled already


def test_a_host_that_does_not_know_the_code_is_rejected() -> None:
    """H10: the joiner stores nothing and shows no card to a rogue that answers with a guess of its own."""
    joiner = Joiner(ToyPake(b"right"), ToyCiphers(), ToyCards(b"ben"))
    rogue = Conversation()
    (hello,) = joiner.start()
    assert isinstance(hello, Send)
    rogue.host = Host(Invitation(), ToyPake(b"guess"), ToyCiphers(), ToyCards(b"mallory"))
    (answer,) = rogue.host.receive(hello.message)
    assert isinstance(answer, Send)
    (confirmation,) = joiner.receive(answer.message)
    assert isinstance(confirmation, Send)
    last = joiner.receive(b"K" + b"x" * 32 + b"whatever")
    assert last == (Send(refusal(Reason.CODE)), Failed(Reason.CODE))


@pytest.mark.parametrize("bad", ["host_card", "joiner_card"])
def test_a_card_that_is_not_acceptable_is_refused_before_anything_is_stored(bad: str) -> None:
    """H11: neither side stores anything, and both know that it was the card."""
    told = Conversation(**{bad: b"bad"})  # type: ignore[arg-type]
    told.run()
    assert told.is_nothing_kept
    assert not any(isinstance(step, Store) for steps in told.steps.values() for step in steps)
    assert {told.failure(side).reason for side in (told.host, told.joiner)} == {Reason.CARD}  # type: ignore[union-attr]


@pytest.mark.parametrize("side", ["host", "joiner"])
def test_a_side_that_cannot_store_makes_the_other_undo(side: str) -> None:
    """F36: a full disk on either machine leaves nothing on both, and both know why."""
    told = Conversation()
    told.can_store[getattr(told, side)] = False
    told.run()
    assert told.is_nothing_kept
    assert {told.failure(one).reason for one in (told.host, told.joiner)} == {Reason.STORE}  # type: ignore[union-attr]


def test_a_recorded_exchange_is_of_no_use() -> None:
    """H15: the messages of a successful joiner, played again to a new host, fail at the confirmation."""
    first = Conversation()
    first.run()
    again = Conversation()
    of_the_joiner = [step.message for step in first.steps[first.joiner] if isinstance(step, Send)]
    ends = [step for message in of_the_joiner for step in again.host.receive(message)]
    assert Failed(Reason.CODE, tries_left=TRIES - 1) in ends
    assert not any(isinstance(step, Store) for step in ends)


def test_another_version_is_told_as_such() -> None:
    """A joiner of a later protocol hears that the versions differ."""
    host = Conversation().host
    assert Failed(Reason.VERSION, tries_left=TRIES - 1) in host.receive(b"pairproxy/2 something else")


def test_a_refusal_says_why_and_how_many_tries_are_left() -> None:
    """What the host says is understood; what is no word of it counts as broken."""
    for text, failed in (
        (refusal(Reason.BUSY), Failed(Reason.BUSY, True)),
        (refusal(Reason.CODE, 2), Failed(Reason.CODE, True, 2)),
        (b"Rnonsense 77", Failed(Reason.BROKEN, True)),
    ):
        joiner = Conversation().joiner
        joiner.start()
        assert joiner.receive(text) == (failed,)


def test_busy_is_believed_only_before_the_confirmation() -> None:
    """H10: afterwards a rogue that says it has checked a guess, and must not be asked anew for that."""
    told = Conversation()
    told.joiner.start()
    told.joiner.receive(b"E" + ToyPake(b"guess").start())
    assert told.joiner.receive(refusal(Reason.BUSY)) == (Failed(Reason.BROKEN, True, None),)
    early = Conversation()
    early.joiner.start()
    assert early.joiner.receive(refusal(Reason.BUSY)) == (Failed(Reason.BUSY, True, None),)


def test_reports_pass_once_both_have_settled() -> None:
    """Before that nothing is told; afterwards a report arrives whole, and a cut changes nothing."""
    told = Conversation()
    assert told.host.report(b"early") == ()
    told.run()
    (sent,) = told.host.report(b"reached")
    assert isinstance(sent, Send)
    assert told.joiner.receive(sent.message) == (Told(b"reached"),)
    assert Undo() not in told.host.interrupt(Reason.LOST)
    assert told.keeps(told.host)


_NOISE = st.one_of(
    st.binary(max_size=80),
    st.tuples(st.sampled_from([b"pairproxy/1 ", b"E", b"C", b"K", b"S", b"R"]), st.binary(max_size=80)).map(
        b"".join
    ),
)


@given(st.lists(st.one_of(_NOISE, st.integers(0, 7)), max_size=12), st.booleans())
def test_nothing_is_ever_stored_without_the_code(tells: list[bytes | int], is_host: bool) -> None:
    """Any bytes in any order, real messages of a neighbour's exchange among them, lead to no Store."""
    recorded = Conversation()
    recorded.run()
    side = Conversation().host if is_host else Conversation().joiner
    steps = [] if isinstance(side, Host) else list(side.start())
    for tell in tells:
        steps += side.receive(recorded.messages[tell] if isinstance(tell, int) else tell)
    assert not any(isinstance(step, Store | Settled | Told) for step in steps)
    assert sum(isinstance(step, Failed) for step in steps) <= 1


@given(st.lists(st.sampled_from([b"right", b"wrong"]), max_size=8), st.data())
def test_a_code_is_never_good_for_more_than_its_tries(typed: list[bytes], data: st.DataObject) -> None:
    """At most TRIES exchanges are answered with an element, however they end."""
    invitation = Invitation()
    answered = 0
    for password in typed:
        told = Conversation(typed=password, invitation=invitation)
        cut = data.draw(st.integers(0, 9))
        told.run(lambda number, message, cut=cut: None if number == cut else message)  # type: ignore[misc]
        answered += any(isinstance(s, Send) and s.message[:1] == b"E" for s in told.steps[told.host])
        kept = told.keeps(told.host)
        assert kept == (told.host.is_settled)
        assert not kept or password == b"right"
    assert answered <= TRIES

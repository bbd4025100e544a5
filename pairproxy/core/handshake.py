"""Pairing as a state machine: two machines that know one code learn each other's certificates.

::

    joiner                                       host
      version, element            ------->       spends a try, whatever comes after
                                  <-------       element
      confirmation                ------->       the joiner first: else a guess could be checked uncounted
                                  <-------       confirmation, sealed card
      sealed card                 ------->       stores the joiner
                                  <-------       sealed "stored"
      stores the host, "stored"   ------->
                                  <-------       sealed "settled"
      sealed report               <------>       how each one's daemon reached the other

The elements are SPAKE2's (RFC 9382): whoever does not know the code learns one thing from an exchange,
whether one guess was right. Until both are settled every failure undoes what was stored. Nothing here waits,
reads or encrypts: messages in, steps out; the exchange of keys, the ciphers and the cards are handed in.
"""

import hashlib
import hmac
from collections.abc import Callable

from pairproxy.core.handshake_steps import (
    REFUSAL,
    Cards,
    Ciphers,
    Failed,
    Pake,
    Reason,
    Send,
    Settled,
    Steps,
    Store,
    Told,
    Undo,
    refusal,
)

MESSAGE_BYTES = 4096  # of one message; a card has about 1,500
ELEMENT_BYTES = 33  # the side, and a point of the curve
TRIES = 3  # exchanges that one code is good for: chance 3 in a million for who guesses its six digits

_SPEAKS = b"pairproxy/"
_HELLO = _SPEAKS + b"1 "
_ELEMENT, _CONFIRMATION, _CARD, _SEALED = b"E", b"C", b"K", b"S"
_MAC_BYTES = 32
_STORED, _SETTLED = b"stored", b"settled"


class Invitation:
    """What one code is good for: TRIES exchanges, one success. Belongs to the host."""

    def __init__(self) -> None:
        self.tries_left = TRIES
        self.is_used = False
        self._is_expired = False

    @property
    def is_open(self) -> bool:
        """Whether an exchange may begin."""
        return self.tries_left > 0 and not self.is_used and not self._is_expired

    def expire(self) -> None:
        """Let no other exchange begin; one that is under way may end."""
        self._is_expired = True

    def spend(self) -> bool:
        """Count an exchange; False if none is left."""
        if not self.is_open:
            return False
        self.tries_left -= 1
        return True


class _Refused(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class _Side:
    """What both sides share. After Failed every call answers with nothing."""

    def __init__(self, pake: Pake, ciphers: Ciphers, cards: Cards, own: bytes, other: bytes) -> None:
        self._pake = pake
        self._ciphers = ciphers
        self._cards = cards
        self._roles = (own, other)
        self._next: Callable[[bytes], Steps] = self._unexpected
        self._transcript = b""
        self._own_confirmation = self._other_confirmation = b""
        self._own_key = self._other_key = b""
        self._sealed = self._unsealed = 0
        self._has_stored = False
        self.is_settled = False
        self.is_over = False

    def receive(self, message: bytes) -> Steps:
        """Take one message of the other side; never raises."""
        if self.is_over:
            return ()
        try:
            if message[:1] == REFUSAL:
                return self._hear_refusal(message[1:])
            return self._next(message)
        except _Refused as refused:
            return self._fail(refused.reason)
        except Exception:  # noqa: BLE001 - hostile bytes: however they break it, the try has failed
            return self._fail(Reason.BROKEN)

    def interrupt(self, reason: Reason) -> Steps:
        """The exchange cannot go on: the connection ended, it was silent, or sent what is no message."""
        return () if self.is_over else self._fail(reason)

    def report(self, report: bytes) -> Steps:
        """Tell the other side something for its screen; only once both are settled."""
        return (self._seal(report),) if self.is_settled and not self.is_over else ()

    def not_stored(self) -> Steps:
        """The peer could not be stored after Store."""
        return () if self.is_over else self._fail(Reason.STORE)

    def _agree(self, key: bytes, joiner: bytes, host: bytes) -> None:
        self._transcript = hashlib.sha256(joiner + host).digest()
        own, other = self._roles
        self._own_confirmation, self._other_confirmation, self._own_key, self._other_key = (
            self._ciphers.derive(key, self._transcript, purpose)
            for purpose in (b"confirm-" + own, b"confirm-" + other, b"enc-" + own, b"enc-" + other)
        )

    def _check_confirmation(self, confirmation: bytes) -> None:
        if not hmac.compare_digest(confirmation, self._other_confirmation):
            raise _Refused(Reason.CODE)

    def _seal(self, text: bytes) -> Send:
        sealed = self._ciphers.seal(self._own_key, self._sealed, text, self._transcript)
        self._sealed += 1
        return Send(_SEALED + sealed)

    def _unseal(self, sealed: bytes) -> bytes:
        text = self._ciphers.unseal(self._other_key, self._unsealed, sealed, self._transcript)
        self._unsealed += 1
        return text

    def _accept(self, sealed: bytes) -> None:
        card = self._unseal(sealed)
        try:
            self._cards.accept(card, self._transcript)
        except Exception:  # noqa: BLE001 - as above
            raise _Refused(Reason.CARD) from None

    def _store(self) -> Steps:
        self._next = self._unexpected  # nothing may come before the store has answered
        self._has_stored = True
        return (Store(),)

    def _expect(self, sealed: bytes, word: bytes) -> None:
        if self._unseal(_body(sealed, _SEALED)) != word:
            raise _Refused(Reason.BROKEN)

    def _settle(self) -> None:
        self.is_settled = True
        self._next = self._hear_report

    def _hear_report(self, message: bytes) -> Steps:
        return (Told(self._unseal(_body(message, _SEALED))),)

    def _hear_refusal(self, text: bytes) -> Steps:
        word, _, tries = text.partition(b" ")
        known = [reason for reason in Reason if reason.value.encode() == word]
        if self._transcript and Reason.BUSY in known:
            known = []  # our confirmation has checked a guess: nobody who is busy would get another one
        tries_left = int(tries) if len(tries) == 1 and tries.isdigit() else None
        return self._end(Failed(known[0] if known else Reason.BROKEN, True, tries_left))

    def _fail(self, reason: Reason) -> Steps:
        return (Send(refusal(reason)), *self._end(Failed(reason)))

    def _end(self, failed: Failed) -> Steps:
        self.is_over = True
        if self.is_settled:
            return ()  # what is settled stays, whatever comes after
        return (Undo(), failed) if self._has_stored else (failed,)

    def _unexpected(self, message: bytes) -> Steps:
        raise _Refused(Reason.BROKEN)


class Host(_Side):
    """The side that shows the code; it only answers."""

    def __init__(self, invitation: Invitation, pake: Pake, ciphers: Ciphers, cards: Cards) -> None:
        super().__init__(pake, ciphers, cards, b"host", b"join")
        self._invitation = invitation
        self._is_counted = False
        self._next = self._hello

    def receive(self, message: bytes) -> Steps:
        """See _Side; the first message is counted as a try, whatever it is."""
        return super().receive(message) if self._is_counted or self._count() else self._fail(Reason.CLOSED)

    def interrupt(self, reason: Reason) -> Steps:
        """See _Side; counted as a try if none was counted yet."""
        if not self._is_counted:
            self._count()
        return super().interrupt(reason)

    def stored(self) -> Steps:
        """The joiner is stored after Store."""
        if self.is_over:
            return ()
        self._next = self._other_stored
        return (self._seal(_STORED),)

    def _count(self) -> bool:
        self._is_counted = True
        return self._invitation.spend()

    def _hello(self, message: bytes) -> Steps:
        if message.startswith(_SPEAKS) and not message.startswith(_HELLO):
            raise _Refused(Reason.VERSION)
        element = _body(message, _HELLO, ELEMENT_BYTES)
        own = self._pake.start()
        self._agree(self._pake.finish(element), element, own)
        self._next = self._confirmed
        return (Send(_ELEMENT + own),)

    def _confirmed(self, message: bytes) -> Steps:
        self._check_confirmation(_body(message, _CONFIRMATION, _MAC_BYTES))
        self._next = self._introduced
        sealed = self._seal(self._cards.own(self._transcript)).message[1:]
        return (Send(_CARD + self._own_confirmation + sealed),)

    def _introduced(self, message: bytes) -> Steps:
        self._accept(_body(message, _SEALED))
        return self._store()

    def _other_stored(self, message: bytes) -> Steps:
        self._expect(message, _STORED)
        self._settle()
        self._invitation.is_used = True
        return (self._seal(_SETTLED), Settled())

    def _fail(self, reason: Reason) -> Steps:
        tries_left = self._invitation.tries_left
        return (Send(refusal(reason, tries_left)), *self._end(Failed(reason, tries_left=tries_left)))


class Joiner(_Side):
    """The side where the code is typed."""

    def __init__(self, pake: Pake, ciphers: Ciphers, cards: Cards) -> None:
        super().__init__(pake, ciphers, cards, b"join", b"host")
        self._element = b""

    def start(self) -> Steps:
        """Begin; once."""
        self._element = self._pake.start()
        self._next = self._answered
        return (Send(_HELLO + self._element),)

    def stored(self) -> Steps:
        """The host is stored after Store."""
        if self.is_over:
            return ()
        self._next = self._other_settled
        return (self._seal(_STORED),)

    def _answered(self, message: bytes) -> Steps:
        element = _body(message, _ELEMENT, ELEMENT_BYTES)
        self._agree(self._pake.finish(element), self._element, element)
        self._next = self._introduced
        return (Send(_CONFIRMATION + self._own_confirmation),)

    def _introduced(self, message: bytes) -> Steps:
        body = _body(message, _CARD)
        self._check_confirmation(body[:_MAC_BYTES])
        self._accept(body[_MAC_BYTES:])
        self._next = self._other_stored
        return (self._seal(self._cards.own(self._transcript)),)

    def _other_stored(self, message: bytes) -> Steps:
        self._expect(message, _STORED)
        return self._store()

    def _other_settled(self, message: bytes) -> Steps:
        self._expect(message, _SETTLED)
        self._settle()
        return (Settled(),)


def _body(message: bytes, kind: bytes, length: int | None = None) -> bytes:
    body = message.removeprefix(kind)
    if not message.startswith(kind) or (length is not None and len(body) != length):
        raise _Refused(Reason.BROKEN)
    return body

"""What a handshake asks of who runs it (steps), how it ends (reasons), and what must be handed to it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

REFUSAL = b"R"  # the first byte of the message that ends an exchange


class Reason(StrEnum):
    """Why an exchange came to nothing; the value is what is told to the other side."""

    BUSY = "busy"  # another exchange is under way
    CLOSED = "closed"  # the code was used, or its tries are
    VERSION = "version"  # the other side speaks another protocol
    CODE = "code"  # the code is wrong, or who answers does not know it
    BROKEN = "broken"  # what came is no message of this protocol, or was changed on its way
    CARD = "card"  # the certificate, its id or the proof of its key is not acceptable
    STORE = "store"  # the peer could not be stored
    LOST = "lost"  # silence, or the connection ended


@dataclass(frozen=True, slots=True)
class Send:
    """Send this to the other side."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Store:
    """Store the peer whose card was accepted, then call stored() or not_stored()."""


@dataclass(frozen=True, slots=True)
class Undo:
    """Put the store back to what it was before Store."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Both sides have stored the other."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the other side reports after both are settled."""

    report: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    """It is over. ``is_told``: the other side said so. ``tries_left``: of the code, by the host's word."""

    reason: Reason
    is_told: bool = False
    tries_left: int | None = None


Step = Send | Store | Undo | Settled | Told | Failed
Steps = tuple[Step, ...]


class Pake(Protocol):
    """One side of one password-authenticated key exchange. ``finish`` raises anything for a bad element."""

    def start(self) -> bytes:
        """The own element, ELEMENT_BYTES long."""

    def finish(self, element: bytes) -> bytes:
        """The common key, given the other's element."""


class Ciphers(Protocol):
    """``number`` counts what a key sealed, from 0. ``unseal`` raises anything for what was changed."""

    def derive(self, key: bytes, salt: bytes, purpose: bytes) -> bytes:
        """A key of 32 bytes for one purpose."""

    def seal(self, key: bytes, number: int, text: bytes, bound_to: bytes) -> bytes:
        """``text`` encrypted and authenticated together with ``bound_to``."""

    def unseal(self, key: bytes, number: int, sealed: bytes, bound_to: bytes) -> bytes:
        """The text again."""


class Cards(Protocol):
    """Who a side is and how it judges the other. ``transcript`` is what a card's proof is bound to."""

    def own(self, transcript: bytes) -> bytes:
        """The own card."""

    def accept(self, card: bytes, transcript: bytes) -> None:
        """Take the other's card, to be stored later; raises anything if it is not acceptable."""


def refusal(reason: Reason, tries_left: int | None = None) -> bytes:
    """The message that ends an exchange; it is not secret and proves nothing."""
    left = b"" if tries_left is None else b" %d" % tries_left
    return REFUSAL + reason.value.encode() + left

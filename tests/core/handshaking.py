"""The two sides of a pairing in one room, with an exchange of keys that fits on a page."""

import hashlib
import itertools
from collections.abc import Callable

from pairproxy.core.handshake import ELEMENT_BYTES, Host, Invitation, Joiner
from pairproxy.core.handshake_steps import Failed, Reason, Send, Step, Store, Undo

_ENTROPY = itertools.count(1)


class ToyPake:
    """Not secret, but it agrees exactly when the passwords do, and is fresh each time."""

    def __init__(self, password: bytes) -> None:
        self._password = password
        self._own = b""

    def start(self) -> bytes:
        self._own = b"T" + next(_ENTROPY).to_bytes(ELEMENT_BYTES - 1, "big")
        return self._own

    def finish(self, element: bytes) -> bytes:
        if element == self._own or not element.startswith(b"T"):
            raise ValueError("reflected, or no element")
        both = b"".join(sorted((element, self._own)))
        return hashlib.sha256(self._password + both).digest()


class ToyCiphers:
    """A checksum under the key stands for encryption."""

    def derive(self, key: bytes, salt: bytes, purpose: bytes) -> bytes:
        return hashlib.sha256(key + salt + purpose).digest()

    def seal(self, key: bytes, number: int, text: bytes, bound_to: bytes) -> bytes:
        return hashlib.sha256(key + bytes([number]) + text + bound_to).digest() + text

    def unseal(self, key: bytes, number: int, sealed: bytes, bound_to: bytes) -> bytes:
        text = sealed[32:]
        if self.seal(key, number, text, bound_to) != sealed:
            raise ValueError("changed")
        return text


class ToyCards:
    """A card is a name; "bad" is refused."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self.accepted: bytes | None = None

    def own(self, transcript: bytes) -> bytes:
        return self._name

    def accept(self, card: bytes, transcript: bytes) -> None:
        if card == b"bad":
            raise ValueError("not acceptable")
        self.accepted = card


class Conversation:
    """Two sides, what each did, and who stands between them."""

    def __init__(
        self,
        *,
        typed: bytes = b"right",
        invitation: Invitation | None = None,
        host_card: bytes = b"anna",
        joiner_card: bytes = b"ben",
    ) -> None:
        self.invitation = invitation or Invitation()
        self.host = Host(self.invitation, ToyPake(b"right"), ToyCiphers(), ToyCards(host_card))
        self.joiner = Joiner(ToyPake(typed), ToyCiphers(), ToyCards(joiner_card))
        self.steps: dict[object, list[Step]] = {self.host: [], self.joiner: []}
        self.can_store = {self.host: True, self.joiner: True}
        self.messages: list[bytes] = []

    def run(self, relay: Callable[[int, bytes], bytes | None] = lambda number, message: message) -> None:
        """Carry messages to and fro; ``relay`` may change one, or return None to cut the connection."""
        waiting: list[tuple[Host | Joiner, Step]] = [(self.joiner, step) for step in self.joiner.start()]
        while waiting:
            side, step = waiting.pop(0)
            self.steps[side].append(step)
            other = self.host if side is self.joiner else self.joiner
            if isinstance(step, Send):
                passed = relay(len(self.messages), step.message)
                self.messages.append(step.message)
                if passed is None:
                    for one in (self.host, self.joiner):
                        waiting += [(one, s) for s in one.interrupt(Reason.LOST) if not isinstance(s, Send)]
                else:
                    waiting += [(other, answer) for answer in other.receive(passed)]
            elif isinstance(step, Store):
                answers = side.stored() if self.can_store[side] else side.not_stored()
                waiting += [(side, answer) for answer in answers]

    def keeps(self, side: Host | Joiner) -> bool:
        """Whether the side has the other stored at the end."""
        steps = self.steps[side]
        can = self.can_store[side]
        return (
            can and any(isinstance(s, Store) for s in steps) and not any(isinstance(s, Undo) for s in steps)
        )

    def failure(self, side: Host | Joiner) -> Failed | None:
        """How it ended for the side."""
        return next((step for step in self.steps[side] if isinstance(step, Failed)), None)

    @property
    def is_nothing_kept(self) -> bool:
        return not self.keeps(self.host) and not self.keeps(self.joiner)

"""Small writes of one turn of the loop leave together, where there are several.

Who reads them is another process, mostly asleep on another core; to wake it takes as long as the write
itself. Each of sixty replies that is written by itself finds its reader asleep again; sixty that are written
one behind the other find it at work. So where more than one request was woken in a turn, what they write
waits for the end of it; whoever is alone writes at once.

::

    a request, or the beginning of a reply, arrives --expect--> one more write is to come
    Sender.send: the only one that is to come --> written at once
                 one of several ------------> waits: until the turn ends, MOST wait, or its connection is
                                              used for anything else
"""

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

MOST: Final = 32  # senders: so many are handled in 2 ms, and no reply waits longer than that
WAITING_BYTES: Final = 16 * 1024  # of one sender: a larger write costs more than it takes to wake its reader


class Outbox:
    """What waits for the end of a turn of one loop; ``outbox_of`` finds it.

    It does not know its loop, which would then never be freed: it is kept as long as that.
    """

    def __init__(self) -> None:
        self._waiting: list[Sender] = []
        self._expected = 0
        self._is_due = False

    def expect(self) -> None:
        """Hear that a task was woken that will write: with the answer to what arrived."""
        self._expected += 1

    def count(self) -> bool:
        """Hear that somebody writes now; whether that waits for others in this turn."""
        if self._expected > 0:
            self._expected -= 1
        return self._expected > 0 or bool(self._waiting)

    def add(self, sender: "Sender") -> None:
        """Let it wait: its ``flush`` is called soon."""
        self._waiting.append(sender)
        if len(self._waiting) >= MOST:
            self._flush()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_due = False
        if len(self._waiting) == 1:  # who was expected beside it did not write
            self._expected = 0
        self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            try:
                sender.flush()
            except Exception as error:  # noqa: BLE001 what the others wrote leaves all the same
                sender.give_up(error)


class Sender:
    """The writing half of a connection: bytes leave in the order in which they were given to it."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._unsent = b""
        self._wire: asyncio.Transport | None = None

    def send(self, data: bytes) -> None:
        """Write it now, or with what others write in this turn. Nothing happens where nobody can read it."""
        if self._unsent:
            if len(self._unsent) + len(data) <= WAITING_BYTES:
                self._unsent += data
                return
            self.flush()
        elif self._outbox.count() and len(data) <= WAITING_BYTES:
            self._unsent = data
            self._outbox.add(self)
            return
        wire = self._wire
        if wire is not None and not wire.is_closing():
            wire.write(data)

    def flush(self) -> None:
        """Write what waits."""
        unsent, self._unsent = self._unsent, b""
        wire = self._wire
        if unsent and wire is not None and not wire.is_closing():
            wire.write(unsent)

    def give_up(self, error: Exception) -> None:
        """End a connection that lost bytes in the middle, and tell the log: no loop should let it happen."""
        told = {"message": "What waited for a connection could not be written", "exception": error}
        asyncio.get_running_loop().call_exception_handler(told)
        if self._wire is not None:
            self._wire.abort()

    def unsent_bytes(self) -> int:
        """What was given to it and is not the system's yet."""
        wire = self._wire
        return 0 if wire is None else len(self._unsent) + wire.get_write_buffer_size()


_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def outbox_of(loop: asyncio.AbstractEventLoop) -> Outbox:
    """The one of a loop: its turns are what all ports and upstreams have in common."""
    found = _outboxes.get(loop)
    if found is None:
        found = _outboxes[loop] = Outbox()
    return found

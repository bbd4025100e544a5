"""An engine that is back on its old port although it was taken over: an update or a reboot undid a step.

The daemon's fronts notice it and ask here. Where no root is needed the recorded steps are done again; where it
is, the sentence says what a person can do.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from pairproxy.core.errors import PairproxyError
from pairproxy.takeover import record
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.owning import clients_of
from pairproxy.takeover.plan import name_of
from pairproxy.takeover.record import Taken
from pairproxy.takeover.running import Runner
from pairproxy.takeover.system import this_machine
from pairproxy.takeover.taking import redo

EVERY_S = 60.0  # between two tries: an engine that is being updated is restarted by its installer, too
MOST_TRIES = 3  # in a row; what did not help three times will not help, and each try restarts the engine

_log = logging.getLogger(__name__)


class Mending:
    """Mends takeovers of one home. ``now``: seconds of a monotonic clock."""

    def __init__(self, home: Path, now: Callable[[], float], machine: Machine | None = None) -> None:
        """``machine``: what the steps act through; None: this one, and sudo may not ask."""
        self._home = home
        self._now = now
        self._machine = machine or this_machine(Runner(may_ask=False))
        self._tries: dict[str, int] = {}
        self._tried_at: dict[str, float] = {}
        self._said: dict[str, str] = {}

    async def back(self, kind: str, take: Callable[[], object]) -> str:
        """The engine of ``kind`` answers on its usual port. Returns the sentence about it for a person.

        ``take`` is called right before steps are done: the front is to have the port when it comes free.
        An empty sentence: this engine was not taken over. Never raises but for cancellation.
        """
        try:
            taken = (await asyncio.to_thread(record.read, self._home)).of(kind)
        except PairproxyError as error:
            return self._say(kind, error.sentence)
        if taken is None or not taken.is_done:
            return ""
        return self._say(kind, await self._mend(taken, take))

    def well(self, kind: str) -> None:
        """The engine is where it belongs: the next time counts anew."""
        self._tries.pop(kind, None)
        self._said.pop(kind, None)

    async def _mend(self, taken: Taken, take: Callable[[], object]) -> str:
        what = (
            f"{name_of(taken.kind)} is back on port {taken.usual}: an update or a reboot undid the takeover."
        )
        by_hand = f"{what} Run `pairproxy takeover` to move it again."
        if taken.needs_root and not self._machine.runner.is_root:
            return by_hand
        tries = self._tries.get(taken.kind, 0)
        if tries >= MOST_TRIES:
            return by_hand
        if self._now() - self._tried_at.get(taken.kind, -EVERY_S) < EVERY_S:
            return f"{what} It is moved again within a minute."
        if await asyncio.to_thread(clients_of, taken.usual, [os.getpid()]):
            return f"{what} It is moved again as soon as nobody uses it."
        self._tries[taken.kind], self._tried_at[taken.kind] = tries + 1, self._now()
        take()
        try:
            await asyncio.to_thread(self._redo, taken)
        except (PairproxyError, OSError) as error:
            why = error.sentence if isinstance(error, PairproxyError) else str(error.strerror)
            return f"{what} Moving it again failed: {why} Run `pairproxy takeover`."
        return f"{what} It was moved again."

    def _redo(self, taken: Taken) -> None:
        with record.alone(self._home):
            redo(self._home, taken, self._machine)

    def _say(self, kind: str, sentence: str) -> str:
        """Write it to the log, once as long as it stays the same."""
        if self._said.get(kind) != sentence:
            self._said[kind] = sentence
            _log.warning("%s", sentence)
        return sentence

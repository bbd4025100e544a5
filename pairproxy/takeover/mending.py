"""An engine that is not where it was moved to: an update, a reboot or a person undid a step.

It is back on its old port; or, where a front has that port, its app runs and its server cannot. The daemon's
fronts notice it and ask here. Where no root is needed the recorded steps are done again; where
it is, the sentence says what a person can do. What moves engines is imported then: most daemons mend nothing,
and it is 2 MB of one at rest.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairproxy.core.errors import PairproxyError
from pairproxy.takeover import record
from pairproxy.takeover.record import Taken
from pairproxy.takeover.restarting import Restart, is_running

if TYPE_CHECKING:
    from pairproxy.takeover.machine import Machine

LOOK_EVERY_S = 2.0  # the record is on disk, and a front asks as often as it steps
AWAY_S = 15.0  # an app whose server just ended has it again by then
EVERY_S = 60.0  # between two tries: an engine that is being updated is restarted by its installer, too
MOST_TRIES = 3  # in a row; what did not help three times will not help, and each try restarts the engine

_log = logging.getLogger(__name__)


class Mending:
    """Mends the takeovers of one home.

    ``now``: seconds of a monotonic clock. ``spawn``: starts a task of the daemon. ``take``: called with a
    kind right before its engine is moved: its front is to have the port when it comes free. ``is_idle``:
    whether the daemon itself has nothing running on the engine of a kind.
    """

    def __init__(
        self,
        home: Path,
        now: Callable[[], float],
        spawn: Callable[[str, Coroutine[Any, Any, Any]], object],
        take: Callable[[str], object],
        is_idle: Callable[[str], bool] = lambda kind: True,
        machine: "Machine | None" = None,
    ) -> None:
        """``machine``: what the steps act through; None: this one, where sudo may not ask."""
        self._home, self._now, self._spawn = home, now, spawn
        self._take, self._is_idle = take, is_idle
        self._given = machine
        self._looking: set[str] = set()
        self._looked_at: dict[str, float] = {}
        self._away_since: dict[str, float] = {}
        self._tries: dict[str, int] = {}
        self._tried_at: dict[str, float] = {}
        self._said: dict[str, str] = {}

    @property
    def _machine(self) -> "Machine":
        if self._given is None:
            from pairproxy.takeover.running import Runner
            from pairproxy.takeover.system import this_machine

            self._given = this_machine(Runner(may_ask=False))
        return self._given

    def back(self, kind: str) -> str:
        """The engine of ``kind`` answers on its usual port: what is done about that, a sentence.

        Empty: this engine was not taken over, or that is not known yet. Call it again while it is so.
        """
        self._away_since.pop(kind, None)
        return self._see_to(kind, self._mend_back)

    def away(self, kind: str) -> str:
        """The engine of ``kind`` answers nowhere, while its front has its usual port: the same about that.

        Empty as long as it may just be ended, or starting. Call it again while it is so.
        """
        since = self._away_since.setdefault(kind, self._now())
        return "" if self._now() - since < AWAY_S else self._see_to(kind, self._mend_away)

    def well(self, kind: str) -> None:
        """The engine is where it belongs: the next time counts anew."""
        self._tries.pop(kind, None)
        self._said.pop(kind, None)
        self._away_since.pop(kind, None)

    def _see_to(self, kind: str, mend: Callable[[Taken], Coroutine[Any, Any, str]]) -> str:
        is_due = self._now() - self._looked_at.get(kind, -LOOK_EVERY_S) >= LOOK_EVERY_S
        if kind not in self._looking and is_due:
            self._looking.add(kind)
            self._spawn(f"mending {kind}", self._look(kind, mend))
        return self._said.get(kind, "")

    async def _look(self, kind: str, mend: Callable[[Taken], Coroutine[Any, Any, str]]) -> None:
        try:
            taken = (await asyncio.to_thread(record.read, self._home)).of(kind)
            sentence = "" if taken is None or not taken.is_done else await mend(taken)
        except PairproxyError as error:
            sentence = error.sentence
        finally:
            self._looked_at[kind] = self._now()
            self._looking.discard(kind)
        if sentence and self._said.get(kind) != sentence:
            _log.warning("%s", sentence)
        self._said[kind] = sentence

    async def _mend_back(self, taken: Taken) -> str:
        from pairproxy.takeover.plan import name_of

        what = (
            f"{name_of(taken.kind)} is back on port {taken.usual}: an update or a reboot undid the takeover."
        )
        return await self._mend(taken, what, is_away=False)

    async def _mend_away(self, taken: Taken) -> str:
        """Only where its app runs: an engine that somebody ended stays ended."""
        apps = [step.executable for step in taken.steps if isinstance(step, Restart) and step.executable]
        if not any([await asyncio.to_thread(is_running, app) for app in apps]):
            return ""
        from pairproxy.takeover.plan import name_of

        what = (
            f"{name_of(taken.kind)}'s app runs, but does not answer on port {taken.moved}: it was started "
            "without the takeover's setting."
        )
        return await self._mend(taken, what, is_away=True)

    async def _mend(self, taken: Taken, what: str, *, is_away: bool) -> str:
        by_hand = f"{what} Run `pairproxy takeover` to move it again."
        if taken.needs_root and not self._machine.runner.is_root:
            return by_hand
        tries = self._tries.get(taken.kind, 0)
        if self._now() - self._tried_at.get(taken.kind, -EVERY_S) < EVERY_S:
            return self._said.get(taken.kind) or f"{what} It was moved again just now."  # what came of it
        if tries >= MOST_TRIES:
            return by_hand
        if not is_away and await self._is_used(taken):
            return f"{what} It is moved again as soon as nobody uses it."
        self._tries[taken.kind], self._tried_at[taken.kind] = tries + 1, self._now()
        if not is_away:  # then the front has the port, and what paired machines can serve need not wait
            self._take(taken.kind)
        try:
            await asyncio.to_thread(self._redo, taken)
        except (PairproxyError, OSError) as error:
            why = error.sentence if isinstance(error, PairproxyError) else f"{error.strerror}."
            return f"{what} Moving it again failed: {why} Run `pairproxy takeover`."
        return f"{what} It was moved again just now."

    async def _is_used(self, taken: Taken) -> bool:
        from pairproxy.takeover.owning import clients_of

        clients = await asyncio.to_thread(clients_of, taken.usual, [os.getpid()])
        return bool(clients) or not self._is_idle(taken.kind)

    def _redo(self, taken: Taken) -> None:
        from pairproxy.takeover.taking import redo

        with record.alone(self._home):
            redo(taken, self._machine)

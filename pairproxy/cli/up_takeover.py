"""`pairproxy up --takeover`: take the engines' ports when the daemon is ready, put all back when it ends."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pairproxy.cli.moving import agreed, ask_sudo, show_plan, tell_moved, tell_progress, to

if TYPE_CHECKING:
    from pairproxy.api.commands import MovedPort
    from pairproxy.api.schema import DaemonFile
    from pairproxy.config import Settings
    from pairproxy.daemon import Daemon
    from pairproxy.takeover.plan import Planned

OnReady = Callable[["DaemonFile"], None]


class ForOneRun:
    """The takeovers of one daemon in the foreground."""

    def __init__(self, home: Path, settings: "Settings") -> None:
        from pairproxy.takeover.running import Runner
        from pairproxy.takeover.stopping import Stop
        from pairproxy.takeover.system import this_machine

        self._home, self._settings = home, settings
        self._stop = Stop()
        self._machine = this_machine(Runner(), self._stop.is_set)
        self._out = to(is_stderr=True)
        self._plans: tuple[Planned, ...] = ()
        self._end: Callable[[], object] = lambda: None
        self._is_taking = False

    def agree(self, *, is_agreed: bool) -> None:
        """Show what will be done, before anything runs. Raises PairproxyError if nobody can be asked."""
        from pairproxy.takeover import acting

        plans = acting.look(self._home, self._settings, self._machine)
        shown = [acting.shown(one, self._machine) for one in acting.told(plans)]
        show_plan(self._out, shown)
        wanted = [one for one in shown if one.what in acting.DOES]
        if any(one.needs_root or one.warnings for one in wanted):
            agreed(wanted, is_agreed=is_agreed, question="Do this, and put it back at the end?")
        ask_sudo(wanted, self._machine.runner)

    def without_advice(self, daemon: "DaemonFile") -> "DaemonFile":
        """The same, with nothing said of ports that are held: they are taken now, or it was told why not."""
        from msgspec.structs import replace

        ports = tuple(replace(one, why="") if one.state == "held" else one for one in daemon.ports)
        return replace(daemon, ports=ports)

    def stop(self) -> None:
        """End: a takeover that goes on is undone first, with the daemon's help."""
        self._stop.set()
        if not self._is_taking:
            self._end()

    async def around(self, daemon: "Daemon", say: OnReady) -> None:
        """Let the daemon run. Afterwards every engine is back where it was."""
        self._end = daemon.stop
        ready = asyncio.Event()

        def on_ready(file: "DaemonFile") -> None:
            say(file)
            ready.set()

        try:
            async with asyncio.TaskGroup() as group:
                taking = group.create_task(self._take(ready), name="takeover")
                try:
                    await daemon.run(on_ready)
                finally:
                    self._stop.set()
                    if not ready.is_set():
                        taking.cancel()
        finally:
            self._put_back()

    async def _take(self, ready: asyncio.Event) -> None:
        await ready.wait()
        self._is_taking = True
        try:
            moved = await asyncio.to_thread(self._take_all)
        finally:
            self._is_taking = False
        tell_moved(self._out, moved, "was taken over: pairproxy answers on its port until it ends")
        if self._stop.is_set():
            self._end()

    def _take_all(self) -> "tuple[MovedPort, ...]":
        from pairproxy.core.errors import PairproxyError
        from pairproxy.takeover import acting

        home, machine = self._home, self._machine
        done: list[MovedPort] = []
        try:
            plans = acting.look(home, self._settings, machine)  # anew: the daemon runs now
            for one in plans:
                if one.what in acting.DOES and not self._stop.is_set():
                    done += [
                        acting.take_one(self._home, one, self._machine, tell_progress, is_for_one_run=True)
                    ]
        except PairproxyError as error:
            typer.echo(error.sentence, err=True)
        return tuple(done)

    def _put_back(self) -> None:
        """In the main thread, so that signals can be kept away; the loop has nothing left to do."""
        from pairproxy.takeover import acting

        moved = acting.release_all(self._home, self._machine, tell_progress, only_for_one_run=True)
        tell_moved(self._out, moved, "is back on its port")


def say_where_engines_are(home: Path) -> None:
    """For who ends a daemon whose engines stay at their private ports."""
    from pairproxy.core.errors import PairproxyError
    from pairproxy.takeover.acting import where_engines_are

    with contextlib.suppress(PairproxyError):
        for sentence in where_engines_are(home):
            typer.echo(sentence, err=True)

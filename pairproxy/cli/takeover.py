"""pairproxy takeover: move an engine off its port, so that its clients ask pairproxy without being told."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pairproxy.cli.moving import DryRun, Now, OfKind, Yes
from pairproxy.cli.options import Home, Json, home_or_default
from pairproxy.cli.printing import say

if TYPE_CHECKING:
    from rich.console import Console

    from pairproxy.api.commands import MovedPort, PlannedPort
    from pairproxy.takeover.machine import Machine
    from pairproxy.takeover.plan import Planned

START_S = 30.0  # a daemon that loads a model of its own takes four
NO_DAEMON = (
    "No daemon runs here, so nobody would answer on the port. Install it with `pairproxy service install`, "
    "or run `pairproxy up --takeover`, which takes over and puts everything back when it ends."
)


def takeover(
    kind: OfKind = None, dry_run: DryRun = False, yes: Yes = False, now: Now = False,
    home: Home = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Move Ollama or LM Studio to a private port of this machine, and have pairproxy answer on the usual one.

    Programs keep pointing at localhost. Everything that is changed is shown first and written to an undo
    record: `pairproxy release` puts it back. What fails is undone at once. Run it again to repair a takeover
    that an update of the engine undid. Run it as yourself: what needs root goes through sudo.

    Examples: `pairproxy takeover --dry-run`, `pairproxy takeover`, `pairproxy takeover --kind ollama --yes`.
    """
    from pairproxy.api.commands import Takeover
    from pairproxy.cli import moving
    from pairproxy.takeover import acting
    from pairproxy.takeover.running import Runner
    from pairproxy.takeover.stopping import Stop
    from pairproxy.takeover.system import this_machine

    directory, stop = home_or_default(home), Stop()
    moving.refuse_sudo(home)
    machine = this_machine(Runner(), stop.is_set)
    plans = acting.look(directory, moving.settings_of(directory), machine, moving.kinds_of(kind))
    out = moving.to(is_stderr=as_json)
    shown = _show(out, plans, machine, is_dry_run=dry_run)
    moved: tuple[MovedPort, ...] = ()
    asked = [one for one in shown if one.what in acting.DOES]
    if asked and not dry_run:
        moving.agreed(asked, is_agreed=yes, question="Do this?")
        _need_daemon(directory, machine)
        moving.ask_sudo(asked, machine.runner)
        with stop.on_signals():
            moved = _take(directory, plans, machine, is_now=now)
        moving.tell_moved(out, moved, "was taken over: pairproxy answers on its port")
    if as_json:
        moving.print_json(Takeover(dry_run, shown, moved))
    _tell_closed(directory, plans)
    if _has_failed(plans, moved):
        raise typer.Exit(1)


def _show(
    out: "Console", plans: "tuple[Planned, ...]", machine: "Machine", *, is_dry_run: bool
) -> "tuple[PlannedPort, ...]":
    from pairproxy.cli.moving import show_plan
    from pairproxy.takeover import acting

    told = acting.told(plans)
    show_plan(out, [acting.shown(one, machine) for one in told])
    if is_dry_run and any(one.what in acting.DOES for one in plans):
        say(out, "Nothing was changed.")
    return tuple(acting.shown(one, machine) for one in plans)


def _take(
    home: Path, plans: "tuple[Planned, ...]", machine: "Machine", *, is_now: bool
) -> "tuple[MovedPort, ...]":
    from pairproxy.api.commands import MovedPort
    from pairproxy.cli.moving import tell_progress
    from pairproxy.takeover.acting import DOES, take_one

    moved: list[MovedPort] = []
    for one in plans:
        if one.what not in DOES:
            continue
        if machine.is_stopped():
            moved.append(MovedPort(one.pair.kind, "Stopped before anything was changed."))
        else:
            moved.append(take_one(home, one, machine, tell_progress, is_now=is_now))
    return tuple(moved)


def _need_daemon(home: Path, machine: "Machine") -> None:
    """Start the service if none answers. Raises NoDaemon, with how to go on, if it is not installed."""
    from pairproxy.api.client import NoDaemon, get_status
    from pairproxy.cli.moving import tell_progress
    from pairproxy.service.ways import start_installed

    try:
        get_status(home)
    except NoDaemon:
        if not start_installed(home, machine.runner):
            raise NoDaemon(NO_DAEMON) from None
        tell_progress("the service was installed and did not run: it is started")
        _until_it_answers(home)


def _tell_closed(home: Path, plans: "tuple[Planned, ...]") -> None:
    """Raise NoDaemon if an engine has made room, and nobody stands on its port."""
    from pairproxy.api.client import NoDaemon, get_status

    ports = [str(one.pair.usual) for one in plans if one.is_there]
    if not ports:
        return
    try:
        get_status(home)
    except NoDaemon:
        raise NoDaemon(
            f"No daemon runs here, so nobody answers on port {' or '.join(ports)}. Start one with "
            "`pairproxy up`, or for good with `pairproxy service install`."
        ) from None


def _until_it_answers(home: Path) -> None:
    """Not every service manager waits for that. Raises NoDaemon after START_S."""
    import time

    from pairproxy.api.client import NoDaemon, get_status

    end = time.monotonic() + START_S
    while True:
        try:
            get_status(home)
            return
        except NoDaemon:
            if time.monotonic() >= end:
                raise NoDaemon(
                    "The service was started, but its daemon does not answer. See `pairproxy service status`."
                ) from None
            time.sleep(0.1)


def _has_failed(plans: "tuple[Planned, ...]", moved: "tuple[MovedPort, ...]") -> bool:
    """Whether an engine could not be taken, or there was none at all: a script has to know."""
    if any(one.problem is not None for one in moved) or any(one.what == "cannot" for one in plans):
        return True
    return not moved and not any(one.is_there or one.what != "none" for one in plans)

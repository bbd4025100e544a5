"""pairproxy service: the daemon as a service of this system, that starts by itself and comes back."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.moving import DryRun, Yes
from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.printing import say
from pairproxy.cli.service_text import NOTHING, tell_installed, tell_state

if TYPE_CHECKING:
    from rich.console import Console

    from pairproxy.api.service import ServiceState
    from pairproxy.service.plans import Plan
    from pairproxy.service.ways import Way
    from pairproxy.takeover.running import Runner

app = typer.Typer(
    no_args_is_help=True,
    help="The daemon as a service of this system: it starts by itself, and comes back after a failure.\n\n"
    "Examples: `pairproxy service install`, `pairproxy service status`, `pairproxy service uninstall`.",
)

System = Annotated[
    bool, typer.Option("--system", help="Linux: a service of the machine, which runs before anybody logs in.")
]
Linger = Annotated[
    bool, typer.Option("--linger", help="Linux: let your services run while you are not logged in.")
]
STOPPED = 3  # exit status of `status`, as for every command that finds no daemon


@app.command()
def install(
    system: System = False,
    linger: Linger = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Install the daemon as a service, start it, and have it start by itself from now on.

    Linux: a unit of your own systemd, or of the system; macOS: a launch agent; Windows: a scheduled task. Run
    it again after an upgrade or a move of pairproxy: it replaces its own file, and no other. If the daemon
    does not start, everything is as it was. Run it as yourself: what needs root goes through sudo.

    Examples: `pairproxy service install`, `pairproxy service install --dry-run`,
    `pairproxy service install --system --yes`.
    """
    from pairproxy.cli.moving import to
    from pairproxy.service.wanted import this_installation
    from pairproxy.service.ways import refuse_sudo, wanted_way
    from pairproxy.takeover.running import Runner

    runner, directory, out = Runner(), home_or_default(home), to(is_stderr=as_json)
    refuse_sudo(runner)
    way = wanted_way(runner, is_system=system)
    _check(directory, way, runner)
    plan = way.install(this_installation(directory, runner), lingers_too=linger)
    notes = (*plan.notes, *_unseen(runner))
    _show(out, plan, runner, notes)
    if not dry_run:
        _agreed(plan, runner, is_agreed=yes)
        _make_home(directory)
        _carry_out(plan, runner)
    states = () if dry_run else (way.state(),)
    _tell_changed(out, plan, runner, notes, states, is_dry_run=dry_run, as_json=as_json)
    for state in states:
        tell_installed(out, state)


@app.command()
def uninstall(
    system: System = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Stop the service and remove it: nothing of it is left. The home directory stays, for it is yours.

    Engines that were taken over are put back first, as `pairproxy release` does.

    Examples: `pairproxy service uninstall`, `pairproxy service uninstall --dry-run`,
    `pairproxy service uninstall --yes`.
    """
    from pairproxy.cli.moving import to
    from pairproxy.core.errors import SetupError
    from pairproxy.service.ways import installed, refuse_sudo
    from pairproxy.takeover.running import Runner

    runner, out = Runner(), to(is_stderr=as_json)
    refuse_sudo(runner)
    found = [way for way in installed(runner) if way.name == "systemd" or not system]
    if not found:
        raise SetupError("No service is installed here, so there is nothing to remove.")
    plans = [way.uninstall() for way in found]
    homes = [Path(told) for way in found if (told := way.state().home)] or [home_or_default(home)]
    notes = [note for one in homes for note in _release(out, one, runner, is_dry_run=dry_run, is_agreed=yes)]
    for plan in plans:
        _show(out, plan, runner, ())
        if not dry_run:
            _agreed(plan, runner, is_agreed=yes)
            _carry_out(plan, runner)
    notes += [f"{one} stays: identity, pairings, settings and history." for one in homes if one.exists()]
    if as_json:
        changed = [change.line(runner) for plan in plans for change in plan.changes]
        _print_changed(changed, notes, (), is_dry_run=dry_run)
        return
    say(out, "Nothing was changed." if dry_run else "The service is gone.")
    for note in notes:
        say(out, plain(note))


@app.command()
def status(home: Home = None, as_json: Json = False) -> None:
    """Tell whether the service is installed, starts by itself and runs. Exit status 3 if it does not run.

    Examples: `pairproxy service status`, `pairproxy service status --json`.
    """
    from pairproxy.cli.moving import to
    from pairproxy.service.plans import serves
    from pairproxy.service.ways import states
    from pairproxy.takeover.running import Runner

    runner, directory, out = Runner(), home_or_default(home), to(is_stderr=False)
    found = states(runner)
    has_daemon = serves(directory, None)
    if as_json:
        import msgspec

        from pairproxy.api.service import ServiceStatus

        typer.echo(
            msgspec.json.format(msgspec.json.encode(ServiceStatus(found, has_daemon)), indent=2).decode()
        )
    else:
        for one in found:
            tell_state(out, one)
        if not any(one.is_installed for one in found):
            say(out, NOTHING + (" A daemon of this home runs all the same." if has_daemon else ""))
    if not any(one.is_running for one in found):
        raise typer.Exit(STOPPED)


# --- parts ----------------------------------------------------------------------------------------------


def _check(home: Path, way: "Way", runner: "Runner") -> None:
    """Raise SetupError for what would keep the service from starting, before anything is changed."""
    from pairproxy.api.client import NoDaemon, already_running, get_status, read_daemon_file
    from pairproxy.cli.moving import settings_of
    from pairproxy.core.errors import SetupError
    from pairproxy.security.private_files import ensure_private_directory
    from pairproxy.service.ways import states

    if home.exists():
        ensure_private_directory(home)
    settings_of(home)
    others = [one for one in states(runner) if one.is_installed and one.manager != way.name]
    if others:
        raise SetupError(
            f"There is a service already, another kind ({others[0].manager}: {others[0].file}). Remove it "
            "first: `pairproxy service uninstall`."
        )
    try:
        get_status(home)
        is_its_own = read_daemon_file(home).pid == way.state().pid
    except NoDaemon:
        return
    if not is_its_own:
        raise SetupError(already_running(home))


def _unseen(runner: "Runner") -> tuple[str, ...]:
    """What of this shell the service does not see, as a note."""
    from pairproxy.service.wanted import unseen

    names = ", ".join(unseen(runner.environment))
    return (
        (f"A service does not see {names} of this shell: config.toml is the place for it.",) if names else ()
    )


def _make_home(home: Path) -> None:
    from pairproxy.security.private_files import ensure_private_directory

    ensure_private_directory(home)


def _show(out: "Console", plan: "Plan", runner: "Runner", notes: Sequence[str]) -> None:
    for change in plan.changes:
        out.print(f"  {plain(change.line(runner))}", markup=False, soft_wrap=True)
    for note in notes:
        say(out, plain(note))


def _agreed(plan: "Plan", runner: "Runner", *, is_agreed: bool) -> None:
    """Return if a person said yes to what was shown. Raises PairproxyError where nobody can be asked."""
    from pairproxy.cli import moving

    if not is_agreed:
        needs_root = any(getattr(one, "needs_root", False) for one in plan.changes)
        moving.ask("Do this?", needs_sudo=needs_root and not runner.is_root)


def _carry_out(plan: "Plan", runner: "Runner") -> None:
    from pairproxy.service.changes import perform

    perform(plan.changes, runner, plan.undone)


def _release(out: "Console", home: Path, runner: "Runner", *, is_dry_run: bool, is_agreed: bool) -> list[str]:
    """Put back the engines that were moved for this home; notes on it. Raises PairproxyError if one stays."""
    from pairproxy.cli import moving
    from pairproxy.core.errors import PairproxyError
    from pairproxy.takeover import acting
    from pairproxy.takeover.system import this_machine

    machine = this_machine(runner)
    shown = acting.releasing(home, machine)
    if not shown:
        return []
    say(out, "Engines were taken over; they are put back first:")
    moving.show_plan(out, shown)
    if is_dry_run:
        return ["Engines that were taken over are put back first."]
    moving.agreed(shown, is_agreed=is_agreed, question="Put it back?")
    moved = acting.release_all(home, machine, moving.tell_progress)
    moving.tell_moved(out, moved, "is back on its port")
    if any(one.problem is not None for one in moved):
        raise PairproxyError("The service stays, because an engine could not be put back. Mend that first.")
    return [f"{moving.NAMES.get(one.kind, one.kind)} is back on its port." for one in moved]


def _tell_changed(
    out: "Console", plan: "Plan", runner: "Runner", notes: Sequence[str],
    found: "tuple[ServiceState, ...]", *, is_dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    if as_json:
        changed = [change.line(runner) for change in plan.changes]
        _print_changed(changed, notes, found, is_dry_run=is_dry_run)
    elif is_dry_run:
        say(out, "Nothing was changed.")


def _print_changed(
    changed: Sequence[str], notes: Sequence[str], found: "tuple[ServiceState, ...]", *, is_dry_run: bool
) -> None:
    import msgspec

    from pairproxy.api.service import ServiceChanged

    document = ServiceChanged(is_dry_run, tuple(changed), tuple(notes), found)
    typer.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())

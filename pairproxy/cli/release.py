"""pairproxy release: undo a takeover, exactly."""

from typing import TYPE_CHECKING

import typer

from pairproxy.cli.moving import DryRun, OfKind, Yes
from pairproxy.cli.options import Home, Json, home_or_default
from pairproxy.cli.printing import say

if TYPE_CHECKING:
    from pairproxy.api.commands import MovedPort


def release(
    kind: OfKind = None, dry_run: DryRun = False, yes: Yes = False, home: Home = None, as_json: Json = False
) -> None:
    """Put an engine that was taken over back on its usual port, and every file and setting as it was.

    Works with and without a daemon, and after a takeover that was broken off. What somebody else changed
    since is left as it is, and told. With nothing taken over it has nothing to do.

    Examples: `pairproxy release --dry-run`, `pairproxy release`, `pairproxy release --kind lmstudio --yes`.
    """
    from pairproxy.api.commands import Release
    from pairproxy.cli import moving
    from pairproxy.takeover import acting
    from pairproxy.takeover.running import Runner
    from pairproxy.takeover.system import this_machine

    moving.refuse_sudo(home)
    directory, machine = home_or_default(home), this_machine(Runner())
    kinds, out = moving.kinds_of(kind), moving.to(is_stderr=as_json)
    shown = acting.releasing(directory, machine, kinds)
    moving.show_plan(out, shown)
    moved: tuple[MovedPort, ...] = ()
    if not shown:
        say(out, "Nothing was taken over, so there is nothing to undo.")
    elif not dry_run:
        moving.agreed(shown, is_agreed=yes, question="Put it back?")
        moving.ask_sudo(shown, machine.runner)
        moved = acting.release_all(directory, machine, moving.tell_progress, kinds)
        moving.tell_moved(out, moved, "is back on its port")
    else:
        say(out, "Nothing was changed.")
    if as_json:
        moving.print_json(Release(dry_run, shown, moved))
    if any(one.problem is not None for one in moved):
        raise typer.Exit(1)

"""What `takeover`, `release` and `up --takeover` share: options, a plan shown and agreed, what came of it."""

import enum
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import plain
from pairproxy.cli.printing import console, say

if TYPE_CHECKING:
    from rich.console import Console

    from pairproxy.api.commands import MovedPort, PlannedPort, Release, Takeover
    from pairproxy.config import Settings
    from pairproxy.takeover.running import Runner


class Kind(enum.StrEnum):
    """Values of --kind: the engines that have a private port."""

    OLLAMA = "ollama"
    LMSTUDIO = "lmstudio"


OfKind = Annotated[Kind | None, typer.Option(help="Only this engine. Default: both.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print exactly what would be changed, change nothing.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; what the plan says is agreed.")]
Now = Annotated[bool, typer.Option("--now", help="Also while requests are in flight: they are broken off.")]

NAMES = {"ollama": "Ollama", "lmstudio": "LM Studio"}


def kinds_of(kind: Kind | None) -> tuple[str, ...]:
    """Which engines are meant."""
    return tuple(NAMES) if kind is None else (kind.value,)


def refuse_sudo(home: Path | None) -> None:
    """Raise PairproxyError for a command under sudo without --home: it would look into root's home."""
    import os

    from pairproxy.core.errors import PairproxyError
    from pairproxy.takeover.running import is_root

    if home is None and is_root() and os.environ.get("SUDO_USER", "root") != "root":
        raise PairproxyError(
            "Run it without sudo: it asks for root itself where it needs it, and the undo record belongs "
            "into your home. If root's own daemon is meant, name its home with --home."
        )


def show_plan(out: "Console", planned: Sequence["PlannedPort"]) -> None:
    """Tell what is to be done, each change in the line in which it stands."""
    for one in planned:
        say(out, f"{NAMES.get(one.kind, one.kind)}: {plain(one.why)}")
        for line in one.changes:
            indent = line[: len(line) - len(line.lstrip())]  # of what a file will hold
            out.print(f"  {indent}{plain(line)}", markup=False, soft_wrap=True)
        for text in one.notes:
            say(out, f"  {plain(text)}", hang=0)
        for text in one.warnings:
            say(out, f"  {plain(text)}", hang=0, style="bold")


def agreed(planned: Sequence["PlannedPort"], *, is_agreed: bool, question: str) -> None:
    """Return if a person said yes to what was shown. Raises PairproxyError as ask() does."""
    from pairproxy.takeover.running import is_root

    if not is_agreed:
        ask(question, needs_sudo=any(one.needs_root for one in planned) and not is_root())


def ask(question: str, *, needs_sudo: bool) -> None:
    """Return if a person says yes. Raises PairproxyError if not, and where nobody can be asked."""
    from pairproxy.core.errors import PairproxyError

    if not sys.stdin.isatty():
        raise PairproxyError("Nothing was changed: nobody can be asked here. Run it again with --yes.")
    if needs_sudo:  # a line of its own: with it the question would not fit into a terminal's
        typer.echo("Some of it is done as root, through sudo.", err=True)
    if not typer.confirm(question, err=True):
        raise PairproxyError("Nothing was changed.")


def ask_sudo(planned: Sequence["PlannedPort"], runner: "Runner") -> None:
    """Let sudo ask for its password before anything is begun. Raises CommandFailed if it gets none."""
    if any(one.needs_root for one in planned):
        runner.do(["true"], needs_root=True)


def tell_moved(out: "Console", moved: Sequence["MovedPort"], done: str) -> None:
    """Tell what came of it. ``done``: what happened to an engine, a phrase."""
    for one in moved:
        name = NAMES.get(one.kind, one.kind)
        if one.problem is not None:
            say(out, f"{name}: {plain(one.problem)}")
        elif one.gap_s is not None:
            gap = (
                f"Nobody was on the port for {one.gap_s:.2f} s."
                if one.gap_s
                else "The port was never closed."
            )
            say(out, f"{name} {done}. {gap}")
        for note in one.notes:
            say(out, f"  {plain(note)}", hang=0)


def tell_progress(line: str) -> None:
    """One step, on standard error: standard output has what came of it."""
    typer.echo(f"  {plain(line)}", err=True)


def print_json(document: "Takeover | Release") -> None:
    """The one document of --json."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def settings_of(home: Path) -> "Settings":
    """The settings of a home, as `up` would read them. Raises ConfigError."""
    import os

    from pairproxy.loading import load

    usual = home / "config.toml"
    return load(usual if usual.exists() else None, os.environ, {})


def to(*, is_stderr: bool) -> "Console":
    """Where text for a person goes: beside --json it must not stand in the document's place."""
    return console(to_stderr=is_stderr)

"""The commands, one per file. Each imports what it needs when it runs: `status` starts in a moment.

Exit status: 0 done, 1 it failed (one sentence says why and what to do), 2 wrong usage, 3 no daemon runs.
"""

import contextlib
import errno
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from pairproxy import __version__
from pairproxy.cli import (
    advise,
    bench,
    config,
    demo,
    doctor,
    drain,
    explain,
    forget,
    join,
    keys,
    models,
    pair,
    peers,
    release,
    reload,
    replicate,
    report,
    reset_identity,
    resume,
    rights,
    service,
    status,
    takeover,
    up,
    whatif,
)

OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG)
"""What a write to standard output may end with; of files of ours that cannot be written others tell."""

app = typer.Typer(
    name="pairproxy",
    help="One port, several machines: each request goes whole to the node that will finish it first.\n\n"
    "Examples: `pairproxy up`; `pairproxy pair` here and `pairproxy join 4821-9376` on another machine; "
    "`pairproxy status`; `pairproxy report`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(up.up)
app.command()(takeover.takeover)
app.command()(release.release)
app.command()(demo.demo)
app.command()(pair.pair)
app.command()(join.join)
app.command()(peers.peers)
app.command()(rights.rights)
app.command()(forget.forget)
app.add_typer(keys.app, name="keys")
app.add_typer(config.app, name="config")
app.add_typer(service.app, name="service")
app.command(name="reset-identity")(reset_identity.reset_identity)
app.command()(status.status)
app.command()(models.models)
app.command()(replicate.replicate)
app.command()(reload.reload)
app.command()(drain.drain)
app.command()(resume.resume)
app.command()(report.report)
app.command()(explain.explain)
app.command()(whatif.whatif)
app.command()(advise.advise)
app.command()(bench.bench)
app.command()(doctor.doctor)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"pairproxy {__version__}")
        raise typer.Exit


def _flow(commands: typer.Typer) -> None:
    """Let the paragraphs of each help fill a terminal's lines, not break where they do in the source."""
    for command in commands.registered_commands:
        told = inspect.cleandoc(command.help or (command.callback and command.callback.__doc__) or "")
        command.help = "\n\n".join(one.replace("\n", " ") for one in told.split("\n\n"))
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _flow(group.typer_instance)


_flow(app)


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main() -> None:
    """Run the command line; an error of ours becomes its sentence and its exit status."""
    from pairproxy.api.client import NoDaemon
    from pairproxy.core.errors import PairproxyError

    if sys.stdout is None:  # it was closed: who started this wants no output
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - to the end of the process
    try:
        _run()
    except NoDaemon as error:
        typer.echo(error.sentence, err=True)
        sys.exit(3)
    except PairproxyError as error:
        typer.echo(error.sentence, err=True)
        sys.exit(1)
    except BaseExceptionGroup as group:  # what a task group raises
        ours, others = group.split(PairproxyError)
        if ours is None or others is not None:
            raise
        for sentence in sorted({error.sentence for error in _leaves(ours)}):
            typer.echo(sentence, err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> None:
    """Run the command; whatever stands behind standard output, it takes the text or one sentence says no."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS or error.filename is not None:
            raise
        with contextlib.suppress(OSError, ValueError):  # what is left would be written again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # whoever reads has read enough
            typer.echo(f"The output cannot be written: {error.strerror}. Send it elsewhere.", err=True)
        sys.exit(1)


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[Any]:
    for error in group.exceptions:
        yield from _leaves(error) if isinstance(error, BaseExceptionGroup) else (error,)

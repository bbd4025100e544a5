"""Every command and what its help says, as one typer application."""

import inspect
from typing import Annotated

import typer

from pairproxy import __version__, is_compiled
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
        typer.echo(f"pairproxy {__version__}{' (compiled)' if is_compiled() else ''}")
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

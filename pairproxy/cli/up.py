"""pairproxy up: run the daemon in the foreground."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from pairproxy.cli.options import Home
from pairproxy.cli.plain_up import ENGINES, UpOptions


class LogLevelName(enum.StrEnum):
    """Values of --log-level."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class EngineChoice(enum.StrEnum):
    """Values of --engine: the kinds that pairproxy brings itself."""

    EMBEDDED = "embedded"
    PACED = "paced"


_ENGINE = typer.Option(
    help="Serve an engine of our own instead of looking for one. embedded: a small real model."
)
_LISTEN = typer.Option(
    help="Where clients find the engine of --engine. Default: what config.toml says, or 127.0.0.1:11434.",
    metavar="HOST:PORT",
)

_LOG_FILE = typer.Option(
    help="Log to this file instead of standard error. A full one (10 MiB) becomes FILE.1, that FILE.2."
)
_TAKEOVER = typer.Option("--takeover", help="Take over the engines' ports; put everything back at the end.")
_YES = typer.Option("--yes", "-y", help="With --takeover: do not ask.")


def up(
    config: Annotated[
        Path | None, typer.Option(help="Settings file. Default: config.toml in the home.")
    ] = None,
    home: Home = None,
    log_level: Annotated[LogLevelName | None, typer.Option(help="How much to log.")] = None,
    log_file: Annotated[Path | None, _LOG_FILE] = None,
    engine: Annotated[EngineChoice | None, _ENGINE] = None,
    listen: Annotated[str | None, _LISTEN] = None,
    takeover: Annotated[bool, _TAKEOVER] = False,
    yes: Annotated[bool, _YES] = False,
    stop_on_eof: Annotated[
        bool, typer.Option(hidden=True, help="Stop when standard input ends: with whoever started this.")
    ] = False,
) -> None:
    """Run the daemon in the foreground: find engines and peers, and serve.

    Ctrl-C takes no new work and lets what runs and waits end, for 30 s at most; a second Ctrl-C ends it
    at once. `pairproxy reload` (or SIGHUP) lets it read its settings anew.

    Examples: `pairproxy up`, `pairproxy up --takeover`, `pairproxy up --engine embedded`.
    """
    _refuse_alone(engine, listen, is_yes=yes and not takeover)
    from pairproxy.cli.serving import serve

    level = None if log_level is None else log_level.value
    kind = next((one for one in ENGINES if one == engine), None)
    serve(UpOptions(config, home, level, log_file, kind, listen, takeover, yes, stop_on_eof))


def _refuse_alone(engine: EngineChoice | None, listen: str | None, *, is_yes: bool) -> None:
    """Raise BadParameter for an option without the one that it goes with."""
    if listen is not None and engine is None:
        raise typer.BadParameter(
            "goes with --engine only; config.toml has engines.listen.", param_hint="--listen"
        )
    if is_yes:
        raise typer.BadParameter("goes with --takeover only: nothing else asks.", param_hint="--yes")

"""pairproxy up: run the daemon in the foreground."""

import contextlib
import enum
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pairproxy import descriptors, logs
from pairproxy.cli.options import Home, home_or_default, plain

if TYPE_CHECKING:
    from pairproxy.api.schema import DaemonFile
    from pairproxy.cli.up_takeover import ForOneRun
    from pairproxy.config import Settings
    from pairproxy.service.supervised import Supervisor


LOOPBACK = "127.0.0.1"
_log = logging.getLogger(__name__)


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
    directory = home_or_default(home)

    def read() -> "Settings":
        settings = _settings(config, directory, log_level)
        return settings if engine is None else _with_engine(settings, engine, listen)

    from pairproxy.service.supervised import Supervisor

    supervisor = Supervisor.here()
    with supervisor.hears_of_failure():
        settings = read()
        with _logging(settings, log_file) as say:
            taking = _agreed(directory, settings, is_agreed=yes) if takeover else None
            _run(settings, read, directory, supervisor, say, taking, stop_on_eof=stop_on_eof)


def _refuse_alone(engine: EngineChoice | None, listen: str | None, *, is_yes: bool) -> None:
    """Raise BadParameter for an option without the one that it goes with."""
    if listen is not None and engine is None:
        raise typer.BadParameter(
            "goes with --engine only; config.toml has engines.listen.", param_hint="--listen"
        )
    if is_yes:
        raise typer.BadParameter("goes with --takeover only: nothing else asks.", param_hint="--yes")


@contextlib.contextmanager
def _logging(settings: "Settings", log_file: Path | None) -> Iterator[Callable[["DaemonFile"], None]]:
    """Log as the settings say, in a process that is about to serve; what tells that it does."""
    from pairproxy.log_file import LogFile

    # Below, it writes out whole packets, and a traceback for a network that left; discovery says it.
    logging.getLogger("zeroconf").setLevel(logging.ERROR)
    file = LogFile(log_file) if log_file is not None else None
    with logs.to_stderr(settings.log.level, settings.log.format, file):
        descriptors.raise_limit()
        descriptors.forbid_core_dumps()
        yield say_ready if file is None and settings.log.format == "text" else log_ready


def _settings(config: Path | None, home: Path, log_level: LogLevelName | None) -> "Settings":
    from pairproxy.loading import load

    flags: dict[str, Any] = {}
    if log_level is not None:
        flags["log"] = {"level": log_level.value}
    usual = home / "config.toml"
    return load(config or (usual if usual.exists() else None), os.environ, flags)


def _with_engine(settings: "Settings", engine: EngineChoice, listen: str | None) -> "Settings":
    """Serve this kind only, as the settings describe it if they do."""
    import msgspec

    from pairproxy.config import EngineSettings, parse_listen

    entries = [entry for entry in settings.engines if entry.kind == engine.value]
    entry = entries[0] if entries else EngineSettings(kind=engine.value)
    if listen is not None:
        parse_listen(listen, "--listen")
        entry = msgspec.structs.replace(entry, listen=listen)
    return msgspec.structs.replace(settings, engines=(entry,))


def _agreed(home: Path, settings: "Settings", *, is_agreed: bool) -> "ForOneRun":
    """The takeover that this run is to make, shown and agreed."""
    from pairproxy.cli.up_takeover import ForOneRun

    taking = ForOneRun(home, settings)
    taking.agree(is_agreed=is_agreed)
    return taking


def _run(
    settings: "Settings",
    read: Callable[[], "Settings"],
    home: Path,
    supervisor: "Supervisor",
    say: Callable[["DaemonFile"], None],
    taking: "ForOneRun | None",
    *,
    stop_on_eof: bool,
) -> None:
    import asyncio

    from pairproxy.cli.progress import fetch_progress
    from pairproxy.cli.signals import on_signals
    from pairproxy.cli.up_takeover import say_where_engines_are
    from pairproxy.daemon import Daemon

    def on_ready(daemon: "DaemonFile") -> None:
        say(daemon if taking is None else taking.without_advice(daemon))
        supervisor.ready(_ready(daemon))

    async def serve() -> None:
        with fetch_progress() as on_progress:
            daemon = Daemon(settings, home, on_progress, read, supervisor)
            stop = daemon.stop if taking is None else taking.stop
            on_signals(stop, daemon.reread)
            if stop_on_eof:
                _on_end_of_input(stop)
            await (daemon.run(on_ready) if taking is None else taking.around(daemon, on_ready))

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve())
    say_where_engines_are(home)


def say_ready(daemon: "DaemonFile") -> None:
    """Tell a person where everything is; on a terminal no word is broken at the end of a line."""
    if not sys.stderr.isatty():
        typer.echo(_ready(daemon), err=True)
        return
    from pairproxy.cli.printing import console, say

    out = console(to_stderr=True)
    for line in _ready(daemon).splitlines():
        say(out, line)


def log_ready(daemon: "DaemonFile") -> None:
    """The same to a program that reads the log."""
    _log.info("%s", _ready(daemon))


def _ready(daemon: "DaemonFile") -> str:
    keys = daemon.key_port
    parts = [
        f"{plain(daemon.name)} {_serving(daemon)}",
        f"peers on port {daemon.peer_port}" if daemon.peer_port else "no machine is paired yet",
        f"clients with a key on {_authority(daemon.key_host, keys)} (TLS)" if keys else "",
        f"status on {_authority(daemon.admin_host, daemon.admin_port)}",
    ]
    held = (plain(one.why) for one in daemon.ports if one.state == "held" and one.why)
    return "\n".join(["; ".join(part for part in parts if part), *held])


def _serving(daemon: "DaemonFile") -> str:
    """What is served where, what is waited for, and what a machine without an engine does."""
    states = {one.port: one.state for one in daemon.ports}
    ports = {
        engine: f"{engine} on {_authority(daemon.client_hosts.get(engine, LOOPBACK), port)}"
        for engine, port in daemon.client_ports.items()
        if states.get(port, "open") == "open"
    }
    serves = ", ".join(text for engine, text in ports.items() if engine not in daemon.waiting_for)
    silent = ", ".join(ports.get(engine, engine) for engine in daemon.waiting_for)
    if silent:
        return f"serves {serves or 'nothing yet'}; waiting for {silent}, which does not answer yet"
    if not daemon.has_engine:
        waits = [str(one.port) for one in daemon.ports if one.state == "closed"]
        what = f"port {', '.join(waits)} opens as soon as a paired one can serve" if waits else ""
        return "; ".join(
            one for one in ("found no engine here and uses those of paired machines", what) if one
        )
    return f"serves {serves or 'paired machines only'}"


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _on_end_of_input(stop: Any) -> None:
    """Watch standard input from a thread: not every system can watch a pipe from a loop."""
    import asyncio
    import threading

    loop = asyncio.get_running_loop()

    def watch() -> None:
        # Not sys.stdin: its lock, held by this thread for ever, would abort the interpreter at its end.
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has stopped already
            loop.call_soon_threadsafe(stop)

    threading.Thread(target=watch, name="end of input", daemon=True).start()


def _loop_factory() -> Any:
    """uvloop's loop where it can be had: 1.4 times the requests per second of asyncio's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop

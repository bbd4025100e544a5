"""What `pairproxy up` does once its options are read. Without typer, which would stay in memory."""

import contextlib
import ctypes
import gc
import importlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairproxy import descriptors, logs
from pairproxy.cli.plain_up import Kind, UpOptions
from pairproxy.tui.words import plain

if TYPE_CHECKING:
    from pairproxy.api.schema import DaemonFile
    from pairproxy.cli.up_takeover import ForOneRun
    from pairproxy.config import Settings
    from pairproxy.service.supervised import Supervisor


LOOPBACK = "127.0.0.1"
COLLECT_AT = 10_000, 20, 20
"""New objects after which garbage is looked for, and how many such looks come before a deeper one. What a
request makes goes by itself when it ends; at the usual 700 every few requests paid for a walk over all that
still run. 10,000 are a millisecond's walk, and less than 5 MB if all of them were garbage.
"""
SWITCH_S = 0.0005
"""For which a thread keeps the interpreter when the loop wants it, which is about ten times a request. At the
usual 5 ms the loop was 40 ms late while a body of 5 MB was read beside it, now 10.
"""
ARENAS = -8, 1
"""M_ARENA_MAX of glibc's mallopt(), and how many: with a heap for each, which they leave in pieces, our ten
threads cost 5 MB of 90 at 512 streams. They seldom want memory at once, for they share one interpreter.
"""
CHECK_S = 20.0  # for a look at certificates in a process of its own, which takes a fifth of a second
_CHECK = """
import pathlib, sys
from pairproxy.security.identity import load_or_create
from pairproxy.security.trust import TrustStore
home = pathlib.Path(sys.argv[1])
TrustStore(home, load_or_create(home).device_id).load()
"""
_log = logging.getLogger(__name__)


def serve(options: UpOptions) -> None:
    """Run until somebody ends it. Raises PairproxyError for what a person has to mend first."""
    from pairproxy.config import default_home
    from pairproxy.service.supervised import Supervisor

    home = options.home or default_home()

    def read() -> "Settings":
        settings = _settings(options.config, home, options.log_level)
        return settings if options.engine is None else _with_engine(settings, options.engine, options.listen)

    _share_one_heap()
    supervisor = Supervisor.here()
    with supervisor.hears_of_failure():
        settings = read()
        _check_certificates(home)
        with _logging(settings, options.log_file) as say:
            taking = _agreed(home, settings, is_agreed=options.yes) if options.takeover else None
            _run(settings, read, home, supervisor, say, taking, stop_on_eof=options.stop_on_eof)


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


def _settings(config: Path | None, home: Path, log_level: str | None) -> "Settings":
    from pairproxy.loading import load

    flags: dict[str, Any] = {}
    if log_level is not None:
        flags["log"] = {"level": log_level}
    usual = home / "config.toml"
    return load(config or (usual if usual.exists() else None), os.environ, flags)


def _with_engine(settings: "Settings", engine: Kind, listen: str | None) -> "Settings":
    """Serve this kind only, as the settings describe it if they do."""
    import msgspec

    from pairproxy.config import EngineSettings, parse_listen

    entries = [entry for entry in settings.engines if entry.kind == engine]
    entry = entries[0] if entries else EngineSettings(kind=engine)
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
    from pairproxy.daemon import Daemon

    def on_ready(daemon: "DaemonFile") -> None:
        say(daemon if taking is None else taking.without_advice(daemon))
        supervisor.ready(_ready(daemon))
        _freeze()
        sys.setswitchinterval(SWITCH_S)

    async def serving() -> None:
        with fetch_progress() as on_progress:
            daemon = Daemon(settings, home, on_progress, read, supervisor)
            stop = daemon.stop if taking is None else taking.stop
            on_signals(stop, daemon.reread)
            if stop_on_eof:
                _on_end_of_input(stop)
            await (daemon.run(on_ready) if taking is None else taking.around(daemon, on_ready))

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serving())

    from pairproxy.cli.up_takeover import say_where_engines_are

    say_where_engines_are(home)


def _share_one_heap() -> None:
    """Before there are threads; other systems than those with glibc have no such wish to take."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(*ARENAS)


def _check_certificates(home: Path) -> None:
    """Have a process of its own make or check ours and those of peers: cryptography would stay here for good.

    Whatever goes wrong with it, the daemon meets again, and tells.
    """
    from pairproxy.security.identity import is_checked
    from pairproxy.security.known_profiles import are_known

    if not (is_checked(home) and are_known(home)):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            command = [sys.executable, "-P", "-c", _CHECK, str(home)]
            subprocess.run(
                command, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=CHECK_S
            )


def _freeze() -> None:
    """Let no look for garbage ever walk again over what was made until now: code and settings, for good."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AT)


def say_ready(daemon: "DaemonFile") -> None:
    """Tell a person where everything is; on a terminal no word is broken at the end of a line."""
    if not sys.stderr.isatty():
        sys.stderr.write(f"{_ready(daemon)}\n")
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


def _loop_factory(platform: str = sys.platform) -> Any:
    """The loop of uvloop where it can be had: 1.4 times the requests per second of asyncio's.

    On Windows that of winloop, for who installs it (pairproxy[windows]); nobody tried that.
    """
    try:
        return importlib.import_module("winloop" if platform == "win32" else "uvloop").new_event_loop
    except ImportError:
        return None

"""Real daemons for tests: processes of their own on loopback, on ports the system chose, always cleaned up.

    with Daemons(tmp_path) as daemons:
        daemons.home("A", settings(paced={"decode": 200}))
        daemons.home("B", settings(paced={"decode": 200}))
        daemons.pair("A", "B")
        a, b = daemons.start("A", "B")
        daemons.until_connected()

Leaving the block stops what still runs, and fails the test if a daemon did not end by itself, left its
daemon.json or a child behind, or logged an error of a task.
"""

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import psutil

from pairproxy.api.client import DAEMON_FILE, NoDaemon, get_report, get_status, read_daemon_file
from pairproxy.api.schema import DaemonFile, NodeStatus, Report, Status
from pairproxy.cli.demo.cluster import node_environment, pair, up_command

Answer = TypeVar("Answer")

READY_S = 60.0  # start, load the model, measure it, find each other: 2 to 4 s on an idle machine
STOP_S = 20.0  # goodbyes take a second and a half
FAULTS = ("Traceback", "never retrieved", "never awaited", " ERROR ", "Fatal Python error")
"""What no log of a daemon may hold."""


def until(ask: Callable[[], Answer | None], what: str, deadline_s: float = READY_S) -> Answer:
    """Ask again and again until the answer is true, and return it; fails the test at the deadline."""
    end = time.monotonic() + deadline_s
    while not (answer := ask()):
        assert time.monotonic() < end, f"not within {deadline_s:.0f} s: {what}"
        time.sleep(0.01)
    return answer


def settings(
    engine: str = "paced", *, slots: int = 1, paced: Mapping[str, Any] | None = None, **sections: Any
) -> str:
    """A config.toml for a daemon on loopback with one engine. ``sections``: routing={"policy": ...}."""
    tables: dict[str, dict[str, Any]] = {
        "peers": {"listen": "127.0.0.1:0", "loopback": True},
        "admin": {"listen": "127.0.0.1:0"},
        "debug": {"headers": True},
    }
    for name, values in sections.items():
        tables[name] = tables.get(name, {}) | values
    entry = {"kind": engine, "listen": "127.0.0.1:0", "slots": slots}
    texts = [_table(f"[{name}]", values) for name, values in tables.items()]
    texts.append(_table("[[engines]]", entry))
    if engine == "paced":
        texts.append(_table("[engines.paced]", {"prefill": 20000.0, "decode": 200.0} | dict(paced or {})))
    return "".join(texts)


def _table(head: str, values: Mapping[str, Any]) -> str:
    return "".join([f"{head}\n", *(f"{key} = {json.dumps(value)}\n" for key, value in values.items())])


class Running(Protocol):
    """What is asked of a daemon's process: a subprocess.Popen, or one in another network."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def kill(self) -> None: ...


@dataclass
class Node:
    """One started daemon."""

    name: str
    home: Path
    process: Running
    log_file: Path
    is_expected_to_fail: bool = False
    """Whether the test itself ended it, or means it to end badly: nothing is asked of its end then."""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def file(self) -> DaemonFile:
        return read_daemon_file(self.home)

    @property
    def port(self) -> int:
        """Its first client port."""
        return next(iter(self.file.client_ports.values()))

    @property
    def id(self) -> str:
        return self.file.node

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def status(self) -> Status:
        return get_status(self.home)

    def report(self, run: str | None = None) -> Report:
        return get_report(self.home, run)

    def view_of(self, other: "Node | str") -> NodeStatus:
        """How this node sees another one."""
        wanted = other if isinstance(other, str) else other.id
        return next(node for node in self.status().nodes if node.node == wanted)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.is_expected_to_fail = True
        self.process.kill()
        self.process.wait(STOP_S)

    def stop(self) -> int:
        """Ask it to stop; returns its exit status."""
        self.send(signal.SIGTERM)
        return self.process.wait(STOP_S)

    def wait(self) -> int:
        """Wait for its own end; returns its exit status."""
        return self.process.wait(STOP_S)

    def children(self) -> list[psutil.Process]:
        """Its children, and theirs."""
        return psutil.Process(self.pid).children(recursive=True)


class Daemons:
    """Homes and daemons of one test; a context manager."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._homes: dict[str, Path] = {}
        self.nodes: list[Node] = []

    def home(self, name: str, text: str) -> Path:
        """A home directory whose config.toml is ``text``, with the node's name added; not started."""
        home = self._directory / name
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        (home / "config.toml").write_text(f'[node]\nname = "{name}"\n' + text)
        self._homes[name] = home
        return home

    def pair(self, *names: str) -> None:
        """Let these homes trust each other."""
        pair({name: self._homes[name] for name in names})

    def start(self, *names: str) -> list[Node]:
        """Start daemons; returns once each answers on its admin port."""
        started = [self.launch(name) for name in names]
        for node in started:
            until(partial(_answers, node), f"{node.name} starts")
        return started

    def launch(self, name: str, *flags: str) -> Node:
        """Start a daemon and do not wait for it; ``flags`` are added to its command."""
        log_file = self._directory / f"{name}-{len(self.nodes)}.log"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                [*up_command(self._homes[name]), *flags],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=node_environment(),
            )
        node = Node(name, self._homes[name], process, log_file)
        self.nodes.append(node)
        return node

    def until_connected(self, *nodes: Node) -> None:
        """Return when each node (default: all of them) serves its model and hears its peers."""
        for node in nodes or self.nodes:
            until(partial(_is_connected, node), f"{node.name} sees all others")

    def __enter__(self) -> "Daemons":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        children = []
        for node in self.nodes:
            if node.process.poll() is None:
                children += node.children()
                node.send(signal.SIGCONT)
                node.send(signal.SIGTERM)
        faults = [fault for node in self.nodes for fault in _ended(node)]
        _, left = psutil.wait_procs(children, STOP_S)
        faults += [f"Left behind: {child}" for child in left]
        if kind is None:
            assert not faults, "\n".join(faults)


def _answers(node: Node) -> bool:
    if node.process.poll() is not None:
        raise AssertionError(f"{node.name} ended with {node.process.returncode}:\n{node.log}")
    with contextlib.suppress(NoDaemon):
        return node.file.pid == node.pid and bool(node.status())
    return False


def _is_connected(node: Node) -> bool:
    return _answers(node) and all(
        one.is_up and any(engine.replicas for engine in one.engines) for one in node.status().nodes
    )


def _ended(node: Node) -> Iterator[str]:
    """Wait for a daemon's end, see to it if need be, and say what was wrong with it."""
    try:
        status = node.process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        yield f"{node.name} had to be killed.\n{node.log}"
        node.kill()
        return
    finally:
        if node.process.stdin is not None:
            node.process.stdin.close()
    if node.is_expected_to_fail:
        return
    if status != 0:
        yield f"{node.name} ended with {status}.\n{node.log}"
    if any(fault in node.log for fault in FAULTS):
        yield f"{node.name} logged:\n{node.log}"
    if (node.home / DAEMON_FILE).exists() and node.file.pid == node.pid:
        yield f"{node.name} left its {DAEMON_FILE}."

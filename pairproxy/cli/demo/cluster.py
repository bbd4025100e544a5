"""The nodes of demo and bench: real daemons in processes of their own, all on loopback, on free ports."""

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from pairproxy.api.client import NoDaemon, get_status, read_daemon_file
from pairproxy.api.schema import DaemonFile, Status
from pairproxy.core.errors import EngineUnavailable
from pairproxy.security.identity import load_or_create
from pairproxy.security.peer_record import PeerRecord
from pairproxy.security.private_files import write_private
from pairproxy.security.trust import TrustStore

READY_S = 60.0  # start, load the model, measure it, find each other: about 3 s on two idle cores
STOP_S = 5.0  # after SIGTERM; nothing runs any more when the demo stops its nodes
POLL_S = 0.05
NAMES = "ABCDEFGH"
PREFIX = "pairproxy-demo-"  # of the directory of a demo; its process id follows

PACED_SPEEDS = (1.0, 0.6, 0.35, 0.25)
"""The paced nodes' speeds relative to the first: a desktop GPU, a small box, a laptop, an old one."""


@dataclass(frozen=True, slots=True)
class DemoNode:
    """One started node."""

    name: str
    home: Path
    process: asyncio.subprocess.Process

    @property
    def file(self) -> DaemonFile:
        """Its ports; raises NoDaemon while it starts."""
        return read_daemon_file(self.home)


class Cluster:
    """Starts nodes that trust each other; an async context manager that leaves nothing behind."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """``settings``: each node's name, also of its directory, and config.toml (node_settings())."""
        self._settings = settings
        self._directory = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-")
        self.nodes: list[DemoNode] = []

    async def __aenter__(self) -> "Cluster":
        try:
            await asyncio.to_thread(_sweep)
            homes = {name: Path(self._directory.name) / name for name in self._settings}
            await asyncio.to_thread(pair, homes)
            for name, home in homes.items():
                text = f"[node]\nname = {json.dumps(name)}\n{self._settings[name]}"
                write_private(home / "config.toml", text.encode())
                self.nodes.append(DemoNode(name, home, await _start(home)))
            await self._until_ready()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    def status(self, node: DemoNode) -> Status:
        """The node's own view of the cluster."""
        return get_status(node.home)

    async def _until_ready(self) -> None:
        """Wait until every node serves and sees all others. Raises EngineUnavailable."""
        try:
            async with asyncio.timeout(READY_S):
                for node in self.nodes:
                    while not await asyncio.to_thread(self._is_ready, node):  # noqa: ASYNC110
                        await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise EngineUnavailable(
                f"The nodes did not find each other in {READY_S:.0f} s. "
                "They use multicast on loopback; see whether a firewall stops it."
            ) from None

    def _is_ready(self, node: DemoNode) -> bool:
        if node.process.returncode is not None:
            raise EngineUnavailable(_last_line(node.home / "log"))
        try:
            status = self.status(node)
        except NoDaemon:
            return False
        return all(one.is_up and any(engine.replicas for engine in one.engines) for one in status.nodes)

    async def _stop(self) -> None:
        for node in self.nodes:
            with suppress(ProcessLookupError):
                node.process.send_signal(signal.SIGTERM)
        for node in self.nodes:
            await _ended(node.process)
        self._directory.cleanup()


def _sweep() -> None:
    """Remove what demos that were killed left in the temporary directory: there are keys in it."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = directory.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(directory, ignore_errors=True)


async def _ended(process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _start(home: Path) -> asyncio.subprocess.Process:
    with (home / "log").open("ab") as log:  # others may write to it, too
        return await asyncio.create_subprocess_exec(
            *up_command(home),
            stdin=asyncio.subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=node_environment(),
            start_new_session=True,  # Ctrl-C is the demo's to handle, in its own order
        )


def up_command(home: Path) -> list[str]:
    """Start a daemon that stops when its starter ends, however that ends: it watches its standard input."""
    return [sys.executable, "-m", "pairproxy", "up", "--home", str(home), "--stop-on-eof"]


def node_environment() -> dict[str, str]:
    """The environment of such a daemon: a person's own settings are not for it, fetched models are."""
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("PAIRPROXY_") or key == "PAIRPROXY_CACHE"
    }


def pair(homes: Mapping[str, Path]) -> None:
    """Let the homes (name -> directory) trust each other: all of them are ours, so nobody has to be asked."""
    identities = {name: load_or_create(home) for name, home in homes.items()}
    for own, home in homes.items():
        trust = TrustStore(home, identities[own].device_id)
        trust.load()
        for name, other in identities.items():
            if name != own:
                trust.add(
                    PeerRecord(other.device_id, name, other.certificate, may_use_me=True, i_may_use=True)
                )


def node_settings(
    engine: str, slots: int = 1, paced: Mapping[str, float] | None = None, policy: str = "", **more: object
) -> str:
    """A config.toml for a node on loopback with one engine, but for its name; ``more``: of [[engines]]."""
    lines = [
        "[peers]", 'listen = "127.0.0.1:0"', "loopback = true",
        "[admin]", 'listen = "127.0.0.1:0"',
        "[debug]", "headers = true",
        *(["[routing]", f"policy = {json.dumps(policy)}"] if policy else []),
        "[[engines]]", f"kind = {json.dumps(engine)}", 'listen = "127.0.0.1:0"', f"slots = {slots}",
        *(f"{key} = {json.dumps(value)}" for key, value in more.items()),
        *(["[engines.paced]"] if paced else []),
        *(f"{key} = {value}" for key, value in (paced or {}).items()),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def demo_settings(count: int, engine: str) -> dict[str, str]:
    """The demo's nodes, A and so on: engines of one thread each, or unequal paced ones."""
    speeds = [PACED_SPEEDS[min(index, len(PACED_SPEEDS) - 1)] for index in range(count)]
    paced = [{"prefill": 2000 * speed, "decode": 60 * speed} for speed in speeds]
    texts = (node_settings(engine, paced=one if engine == "paced" else None, threads=1) for one in paced)
    return dict(zip(NAMES, texts, strict=False))


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "A node ended without a word."

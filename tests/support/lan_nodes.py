"""Daemons on a LAN: each in a host of its own, found by real multicast, asked from inside its host.

    with Nursery(*PRELOADED) as nursery, LanDaemons(tmp_path, ["anna", "ben"], nursery=nursery) as daemons:
        daemons.pair("anna", "ben")
        anna, ben = daemons.start("anna", "ben")
        daemons.until_connected()
        daemons.lan["ben"].cut()

What Daemons asks of each daemon at its end is asked here, too.
"""

import http.client
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from pairproxy.api.client import NoDaemon
from pairproxy.api.schema import Report, Status
from pairproxy.cli.demo.cluster import node_environment
from tests.support.asking import TIMEOUT_S, Asker
from tests.support.daemons import READY_S, Daemons, Node, settings, until
from tests.support.lan import Lan
from tests.support.lan_host import Host, Inside

PEER_PORT = 11634
ADMIN_S = 5.0  # for one answer of the admin port
Answer = TypeVar("Answer")


def lan_settings(
    *, heartbeat_s: float = 0.25, listen: str = f"0.0.0.0:{PEER_PORT}", decode: float = 100.0, **sections: Any
) -> str:
    """A config.toml for a node on a LAN. All times of the heartbeat are in proportion to ``heartbeat_s``.

    With 1.0 they are what they are for everybody: stale after 3 s, lost after 5 s.
    """
    peers = {
        "listen": listen,
        "loopback": False,
        "state_interval_s": heartbeat_s,
    } | sections.pop("peers", {})
    limits = {
        "node_stale_s": 3 * heartbeat_s,
        "node_lost_s": 5 * heartbeat_s,
    } | sections.pop("limits", {})
    paced = {"decode": decode} | sections.pop("paced", {})
    return settings(peers=peers, limits=limits, paced=paced, **sections)


@dataclass
class LanAsker(Asker):
    """A client that runs in a host, and speaks to the port of a daemon there."""

    host: Host | None = None

    def connection(self) -> http.client.HTTPConnection:
        assert self.host is not None
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        connection.sock = self.host.connect("127.0.0.1", self.port, TIMEOUT_S)
        return connection


@dataclass
class LanNode(Node):
    """A daemon in a host."""

    host: Host | None = None

    @property
    def here(self) -> Host:
        """Where it runs."""
        assert self.host is not None
        return self.host

    def status(self) -> Status:
        return self._get("/status", Status)

    def report(self, run: str | None = None) -> Report:
        return self._get(f"/report?run={quote(run)}" if run else "/report", Report)

    def asker(self, run: str) -> LanAsker:
        """A client beside it."""
        return LanAsker(self.port, headers={"X-Pairproxy-Run": run}, host=self.host)

    def _get(self, path: str, kind: type[Answer]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.file.admin_port)
        try:
            connection.sock = self.here.connect("127.0.0.1", self.file.admin_port, ADMIN_S)
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            raise NoDaemon(f"{self.name} does not answer") from None
        finally:
            connection.close()
        assert response.status == 200, body
        return msgspec.json.decode(body, type=kind)


class LanDaemons(Daemons):
    """Homes, hosts and daemons of one test; a context manager."""

    def __init__(self, directory: Path, names: Sequence[str], **options: Any) -> None:
        """A host for each name. ``options`` are Lan's; its nursery has imported PRELOADED."""
        super().__init__(directory)
        self.lan = Lan(names, **options)

    def __enter__(self) -> "LanDaemons":
        self.lan.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        try:
            super().__exit__(kind, *more)
        finally:
            self.lan.stop()

    def launch(self, name: str, *flags: str, **environment: str) -> LanNode:
        """Start the daemon of a home in the host of its name; an ``environment`` takes a new interpreter."""
        log_file = self._directory / f"{name}-{len(self.nodes)}.log"
        arguments = ["up", "--home", str(self._homes[name]), "--stop-on-eof", *flags]
        argv = [sys.executable, "-m", "pairproxy", *arguments] if environment else arguments
        process = begin(
            self.lan[name], argv, log_file, node_environment() | environment, is_pairproxy=not environment
        )
        node = LanNode(name, self._homes[name], process, log_file, host=self.lan[name])
        self.nodes.append(node)
        return node

    def begin(self, *names: str) -> list[LanNode]:
        """start() with hosts."""
        return [node for node in self.start(*names) if isinstance(node, LanNode)]


def begin(
    host: Host,
    argv: Sequence[str],
    output: Path,
    environment: Mapping[str, str],
    *,
    is_pairproxy: bool = True,
) -> Inside:
    """Start a program in a host, its words in a file, its input a pipe that ends when this process does."""
    reading, writing = os.pipe()
    with output.open("wb") as out:
        try:
            pid = host.spawn(
                argv,
                stdin=reading,
                stdout=out.fileno(),
                stderr=out.fileno(),
                environment=environment,
                is_pairproxy=is_pairproxy,
            )
        finally:
            os.close(reading)
    return Inside(host, pid, os.fdopen(writing, "wb"))


class LanCommand:
    """A command of pairproxy that runs in a host, by what it says."""

    def __init__(self, node: LanNode, output: Path, *arguments: str) -> None:
        """For the home of ``node``, in its host; its words go to ``output``."""
        argv = [*arguments, "--home", str(node.home)]
        self._output = output
        self._process = begin(node.here, argv, output, node_environment())

    @property
    def said(self) -> str:
        """All it said so far, on both its streams."""
        return self._output.read_text(errors="replace")

    def until(self, pattern: str) -> str:
        """Wait until it says something that fits; returns the first group of it."""
        found = until(lambda: re.search(pattern, self.said), f"{pattern!r} is said:\n{self.said}")
        return found.group(found.lastindex or 0)

    def ended(self) -> int:
        """Wait for its end; its exit status."""
        status = self._process.wait(READY_S)
        if self._process.stdin is not None:
            self._process.stdin.close()
        return status

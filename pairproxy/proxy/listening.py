"""Binding the ports, and saying who has one that is taken."""

import errno
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from pairproxy.api.schema import DaemonFile
from pairproxy.config import is_loopback, parse_listen
from pairproxy.core.errors import ConfigError, PortTaken
from pairproxy.core.models import EngineId, NodeId
from pairproxy.security.peer_record import printable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sockets:
    """Everything a daemon listens on, bound before anything is started."""

    clients: dict[EngineId, list[socket.socket]]
    peers: list[socket.socket]
    admin: list[socket.socket]

    def close(self) -> None:
        """Give all ports back."""
        for sock in (*self.peers, *self.admin, *(sock for bound in self.clients.values() for sock in bound)):
            sock.close()

    def file(self, node: NodeId, name: str) -> DaemonFile:
        """What daemon.json says of them."""
        return DaemonFile(
            pid=os.getpid(),
            node=node,
            name=name,
            admin_port=port_of(self.admin[0]),
            peer_port=port_of(self.peers[0]) if self.peers else None,
            client_ports={str(engine): port_of(sockets[0]) for engine, sockets in self.clients.items()},
            admin_host=host_of(self.admin[0]),
            client_hosts={str(engine): host_of(sockets[0]) for engine, sockets in self.clients.items()},
        )


Keep = Callable[[list[socket.socket]], list[socket.socket]]


@contextmanager
def all_or_none() -> Iterator[Keep]:
    """Bind several ports together: what was kept before one of them failed is given back."""
    bound: list[socket.socket] = []

    def keep(sockets: list[socket.socket]) -> list[socket.socket]:
        bound.extend(sockets)
        return sockets

    try:
        yield keep
    except BaseException:
        for sock in bound:
            sock.close()
        raise


def bind(host: str, port: int, how_to_go_on: str) -> list[socket.socket]:
    """Listening sockets for a port: the one asked for, and its IPv6 twin: of loopback, of every address.

    A twin that somebody else has is done without, and said in the log; one of a machine without IPv6 is not.
    Raises PortTaken with who holds the port and ``how_to_go_on``, ConfigError for an address that this
    machine does not have.
    """
    sockets = [_bind(host, port, how_to_go_on)]
    twin = _TWINS.get(host)
    if twin is not None and port != 0:
        try:
            sockets.append(_bind(twin, port, _WITHOUT[twin]))
        except PortTaken as error:
            _log.warning("%s", error.sentence)
        except ConfigError:
            pass
    return sockets


def bind_plain(text: str, key: str, how_to_go_on: str) -> list[socket.socket]:
    """bind() for the setting ``key`` of a port that asks for no proof: it never leaves this machine.

    Raises ConfigError for an address that is not loopback, else what bind() raises.
    """
    host, port = parse_listen(text, key)
    if is_loopback(host):
        return bind(host, port, how_to_go_on)
    raise ConfigError(
        f"{key} = {text!r} could be reached from other machines. Use 127.0.0.1:{port}; "
        "other machines come in by pairing."
    )


def port_of(sock: socket.socket) -> int:
    """The port a socket is bound to."""
    return int(sock.getsockname()[1])


def host_of(sock: socket.socket) -> str:
    """The address a socket is bound to."""
    return str(sock.getsockname()[0])


_TWINS = {
    "127.0.0.1": "::1",
    "localhost": "::1",  # Node resolves it to ::1 first
    "0.0.0.0": "::",  # two machines with nothing but a cable have link-local IPv6 addresses only
}
_WITHOUT = {
    "::1": "Who calls localhost may reach that one in place of pairproxy, prompts included: see whether it "
    "is meant to be there, or have your programs call 127.0.0.1.",
    "::": "Machines that have only IPv6 between them and this one cannot reach it: stop that program.",
}


def _bind(host: str, port: int, how_to_go_on: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        raise ConfigError(f"This machine has no network of the kind of {host}.") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
        sock.listen(1024)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(_taken(host, port, how_to_go_on)) from None
        raise ConfigError(f"Cannot listen on {host}:{port}: {error.strerror}.") from None
    return sock


def _taken(host: str, port: int, how_to_go_on: str) -> str:
    """The sentence for a port that somebody else has."""
    what = f"Port {port} of {host}" if ":" in host else f"Port {port}"
    holder = _holder(host, port)
    if holder is None:
        return f"{what} is taken by another program. {how_to_go_on}"
    if holder.pid is None:
        return f"{what} is taken by a program of another user. {how_to_go_on}"
    who = f"pid {holder.pid}"
    with suppress(psutil.Error):
        process = psutil.Process(holder.pid)
        if is_pairproxy(process.cmdline()):
            return f"{what} is taken by another pairproxy ({who}). {_OTHER_PORTS}"
        who = f"{printable(process.name())} ({who})"
    return f"{what} is taken by {who}. {how_to_go_on}"


def is_pairproxy(command: Sequence[str]) -> bool:
    """Whether a command line runs pairproxy: by its script, or as a module."""
    first = [Path(word).name.removesuffix(".exe") for word in command[:2]]
    return "pairproxy" in first or ("-m", "pairproxy") in pairwise(command[:8])


_OTHER_PORTS = (
    "Use that one, stop it, or give this one other ports: admin.listen and engines.listen in config.toml."
)


def _holder(host: str, port: int) -> Any:
    """The connection of psutil that listens there, as far as the system tells us."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with suppress(psutil.Error, OSError):
        listening = [
            one
            for one in psutil.net_connections(kind="tcp")
            if one.status == psutil.CONN_LISTEN and one.laddr.port == port
        ]
        # One of the other family may be our own; yet "::" can stand for both.
        return next((one for one in listening if one.family == family), next(iter(listening), None))
    return None

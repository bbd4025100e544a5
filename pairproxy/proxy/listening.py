"""Binding the ports, and saying who has one that is taken."""

import errno
import logging
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pairproxy.config import is_loopback, parse_listen
from pairproxy.core.errors import ConfigError, PortTaken
from pairproxy.security.peer_record import printable

_log = logging.getLogger(__name__)

CONNECT_S = 0.25  # to a port of this machine, which answers or refuses in microseconds


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
    return bind(*plain_address(text, key), how_to_go_on)


def plain_address(text: str, key: str) -> tuple[str, int]:
    """Host and port on loopback of the setting ``key``. Raises ConfigError beyond it."""
    host, port = parse_listen(text, key)
    if is_loopback(host):
        return host, port
    raise ConfigError(
        f"{key} = {text!r} could be reached from other machines. Use 127.0.0.1:{port}; "
        "other machines come in by pairing."
    )


def bind_if_free(host: str, port: int) -> list[socket.socket] | None:
    """bind() of a port that is free now; None: somebody has it. It takes microseconds, and asks nobody who.

    Raises ConfigError for an address that this machine does not have.
    """
    try:
        sockets = [_listen(host, port)]
    except OSError as error:
        if error.errno in _TAKEN:
            return None
        raise ConfigError(f"Cannot listen on {host}:{port}: {error.strerror}.") from None
    with suppress(OSError, ConfigError):
        if (twin := twin_of(host, port)) is not None:
            sockets.append(_listen(twin, port))
    return sockets


def warn_of_twin(host: str, port: int) -> None:
    """Say in the log who has the IPv6 twin of a port of ours, if somebody has. For a thread."""
    twin = twin_of(host, port)
    with suppress(ConfigError):
        if twin is not None and not is_free(twin, port):
            _log.warning("%s", holder_of(twin, port).sentence(twin, port, _WITHOUT[twin]))


def is_free(host: str, port: int) -> bool:
    """Whether nobody listens there. Looking never listens: it does not keep away who is about to."""
    try:
        _bound(host, port).close()
    except OSError:
        return False
    return True


def twin_of(host: str, port: int) -> str | None:
    """The IPv6 address that goes with an address of IPv4; None: none does, or the port is not chosen yet."""
    return _TWINS.get(host) if port else None


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
    try:
        return _listen(host, port)
    except OSError as error:
        if error.errno in _TAKEN:
            raise PortTaken(holder_of(host, port).sentence(host, port, how_to_go_on)) from None
        raise ConfigError(f"Cannot listen on {host}:{port}: {error.strerror}.") from None


_TAKEN = (errno.EADDRINUSE, errno.EACCES if sys.platform == "win32" else errno.EADDRINUSE)


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError, ConfigError where there is no such family."""
    sock = _bound(host, port)
    try:
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock


def _bound(host: str, port: int) -> socket.socket:
    sock = _socket(host)
    try:
        if port and sys.platform == "darwin" and _is_answered(host, port):
            # There a socket of 127.0.0.1 may be bound beside one of every address, and take its callers.
            raise OSError(errno.EADDRINUSE, "Address already in use")
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def _socket(host: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        raise ConfigError(f"This machine has no network of the kind of {host}.") from None
    if sys.platform == "win32":  # SO_REUSEADDR would let us listen beside who has the port
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return sock


def _is_answered(host: str, port: int) -> bool:
    """Whether a connection to a port of this machine is taken. Loopback says so at once."""
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a port. ``told``: for a person, "ollama (pid 7)"."""

    told: str
    is_pairproxy: bool = False

    def sentence(self, host: str, port: int, how_to_go_on: str) -> str:
        """That it has this port, and what to do."""
        what = f"Port {port} of {host}" if ":" in host else f"Port {port}"
        return f"{what} is taken by {self.told}. {_OTHER_PORTS if self.is_pairproxy else how_to_go_on}"


def holder_of(host: str, port: int) -> Holder:
    """Who listens there, as far as the system tells us; it may take tenths of a second."""
    import psutil  # a megabyte, and a daemon whose ports are free has no use for it

    found = _listener(host, port)
    if found is None:
        return Holder("another program")
    if found.pid is None:
        return Holder("a program of another user")
    who = f"pid {found.pid}"
    with suppress(psutil.Error):
        process = psutil.Process(found.pid)
        if is_pairproxy(process.cmdline()):
            return Holder(f"another pairproxy ({who})", is_pairproxy=True)
        who = f"{printable(process.name())} ({who})"
    return Holder(who)


def is_pairproxy(command: Sequence[str]) -> bool:
    """Whether a command line runs pairproxy: by its script, or as a module."""
    first = [Path(word).name.removesuffix(".exe") for word in command[:2]]
    return "pairproxy" in first or ("-m", "pairproxy") in pairwise(command[:8])


_OTHER_PORTS = (
    "Use that one, stop it, or give this one other ports: admin.listen and engines.listen in config.toml."
)


def _listener(host: str, port: int) -> Any:
    """The connection of psutil that listens there, as far as the system tells us."""
    import psutil

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

"""Where a front stands: its port, had and given up while the daemon runs, and who has it otherwise."""

import asyncio
import logging
import socket
from collections.abc import Callable

from pairproxy.core.errors import ConfigError
from pairproxy.proxy.listening import (
    Holder,
    bind_if_free,
    holder_of,
    host_of,
    is_free,
    port_of,
    twin_of,
    warn_of_twin,
)
from pairproxy.service.supervised import Supervisor

_log = logging.getLogger(__name__)


class Stand:
    """One port of loopback with its IPv6 twin."""

    def __init__(self, host: str, port: int, ours: set[int], supervisor: Supervisor) -> None:
        """``ours``: the ports that this daemon has, kept here. Port 0 is chosen once, when it is had."""
        self.host, self.port = "127.0.0.1" if host == "localhost" else host, port
        self._ours, self._supervisor = ours, supervisor
        self.sockets: tuple[socket.socket, ...] = ()
        """What is listened on; empty: the port is not ours now."""
        self.hosts: tuple[str, ...] = ()
        """The addresses on which it is had; sockets that a server has closed do not tell theirs any more."""
        self._names: tuple[str, ...] = ()  # by which a service manager keeps them
        self.holder: Holder | None = None
        """Who has it, as far as it was asked for."""
        self._asking: asyncio.Task[Holder] | None = None

    @property
    def is_kept(self) -> bool:
        """Whether a service manager keeps what is listened on."""
        return self._supervisor.is_there

    def inherit(self) -> bool:
        """Have the port as the service manager kept it from the last life of this daemon, if it did."""
        hosts = (self.host, twin_of(self.host, self.port))
        found = [self._supervisor.take(host, self.port) for host in hosts if host is not None]
        return self._have([sock for sock in found if sock is not None])

    def have(self) -> bool:
        """Have the port if it is free; whether it is ours then. Raises ConfigError."""
        return self._have(bind_if_free(self.host, self.port) or [])

    def is_free(self) -> bool:
        """Whether nobody has it; looking takes nothing."""
        return is_free(self.host, self.port)

    def give_up(self) -> None:
        """Let it go; whoever answered on it has stopped to."""
        for name in self._names:
            self._supervisor.drop(name)
        self.close()

    def close(self) -> None:
        """The daemon ends: what a service manager keeps, it keeps for the next one."""
        for sock in self.sockets:
            sock.close()
        self.sockets = self.hosts = ()
        self._ours.discard(self.port)

    def ask_who(self, then: Callable[[], None]) -> None:
        """Find out who has it, once, in a thread: it takes tenths of a second. ``then``: it is known."""
        if self.holder is None and self._asking is None:
            work = asyncio.to_thread(holder_of, self.host, self.port)
            self._asking = asyncio.create_task(work, name=f"who has port {self.port}")
            self._asking.add_done_callback(lambda task: self._asked(task, then))

    def _asked(self, task: "asyncio.Task[Holder]", then: Callable[[], None]) -> None:
        self._asking = None
        if not task.cancelled() and task.exception() is None and not self.sockets:
            self.holder = task.result()
            then()

    def _have(self, sockets: list[socket.socket]) -> bool:
        if not sockets:
            return False
        self.sockets, self.holder, self.port = tuple(sockets), None, port_of(sockets[0])
        self.hosts = tuple(host_of(sock) for sock in sockets)
        self._ours.add(self.port)
        self._names = tuple(_name_of(sock) for sock in sockets)
        for name, sock in zip(self._names, sockets, strict=True):
            self._supervisor.keep(name, sock)
        if len(sockets) == 1 and twin_of(self.host, self.port) is not None:
            asyncio.get_running_loop().run_in_executor(None, warn_of_twin, self.host, self.port)
        return True

    def try_to_have(self) -> bool:
        """have() for a daemon that runs: what is wrong with the address is said in the log."""
        try:
            return self.have()
        except ConfigError as error:
            _log.warning("%s", error.sentence)
            return False


def _name_of(sock: socket.socket) -> str:
    """How the service manager calls it while it keeps it."""
    return f"front-{port_of(sock)}-{'v6' if sock.family == socket.AF_INET6 else 'v4'}"

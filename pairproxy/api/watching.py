"""Watching a running daemon: GET /events, read until it is closed, and found again when the daemon restarts.

::

    with watch_status(home) as seen:
        for one in seen:  # Status, or Lost while the daemon does not answer
            ...
"""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pairproxy.api.client import ANSWER_BYTES, NoDaemon, decoded, error_of, read_daemon_file
from pairproxy.api.schema import DaemonFile, Status
from pairproxy.core.errors import PairproxyError

OLD_S = 12.0  # a status comes each five seconds at least: two were missed
SILENT = "The daemon is silent. If it stays so, restart it."
STANDS_STILL = "The daemon tells nothing new. If it stays so, restart it."  # though it says that it is there
START_IT = "`pairproxy up` starts one."  # short: a terminal of 80 columns has room for it behind a time
PAUSES_S = (0.1, 0.25, 0.5, 1.0)  # before each further try; the last one again and again


@dataclass(frozen=True, slots=True)
class Lost:
    """The daemon does not answer; it is tried again. ``sentence`` says it to a person."""

    sentence: str
    tries: int  # without an answer, so far


class _RefusedError(PairproxyError):
    """The daemon is there and says why it does not let itself be watched."""


class _StandsStillError(Exception):
    """The daemon says that it is there, but no status came for OLD_S."""


class Watch:
    """An iterator of what /events says: Status as it comes, Lost for each try that failed.

    Ends when it is closed, which any thread may do, and which a signal handler may do too. The first step
    raises NoDaemon if no daemon runs. A later step raises PairproxyError for what trying again does not mend:
    a daemon of another version.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._closed = threading.Event()
        self._socket: socket.socket | None = None
        self._seen = self._watch()

    def __iter__(self) -> Iterator[Status | Lost]:
        return self

    def __next__(self) -> Status | Lost:
        return next(self._seen)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration, also one that waits for the next event now."""
        self._closed.set()
        if (open_socket := self._socket) is not None:
            with suppress(OSError):  # it ended by itself
                open_socket.shutdown(socket.SHUT_RDWR)

    def _watch(self) -> Iterator[Status | Lost]:
        read_daemon_file(self._home)
        tries = 0
        while not self._closed.is_set():
            try:
                for status in self._events(read_daemon_file(self._home)):
                    tries = 0
                    yield status
                sentence = "The daemon ended the connection. Trying again."
            except _RefusedError as refused:
                sentence = refused.sentence
            except _StandsStillError:
                sentence = STANDS_STILL
            except TimeoutError:
                sentence = SILENT
            except NoDaemon:
                sentence = f"No daemon is running here. {START_IT}"
            except (OSError, http.client.HTTPException):
                sentence = f"The daemon does not answer. {START_IT}"
            if self._closed.is_set():
                return
            tries += 1
            yield Lost(sentence, tries)
            self._closed.wait(PAUSES_S[min(tries, len(PAUSES_S)) - 1])

    def _events(self, daemon: DaemonFile) -> Iterator[Status]:
        """What one connection says; ends where no status came for OLD_S, whatever else does.

        Raises OSError, HTTPException, NoDaemon, _StandsStillError, PairproxyError.
        """
        connection = http.client.HTTPConnection(daemon.admin_host, daemon.admin_port, timeout=OLD_S)
        with closing(connection):
            connection.connect()
            self._socket = connection.sock
            connection.request("GET", "/events", headers={"Accept": "text/event-stream"})
            response = connection.getresponse()
            if response.status != 200:  # too many watch, or a daemon of before
                error = error_of(response.status, response.read(ANSWER_BYTES))
                raise _RefusedError(error.sentence) if error else http.client.HTTPException(response.status)
            for data in _data_of(response, self._socket, "status"):
                if self._closed.is_set():
                    return
                yield _status(data, daemon.node)


def watch_status(home: Path) -> Watch:
    """Watch the daemon of ``home``; nothing is asked before the first step."""
    return Watch(home)


def _data_of(response: http.client.HTTPResponse, from_: socket.socket, wanted: str) -> Iterator[bytes]:
    """The data of each event called ``wanted``. Ours have one line of data each.

    Raises TimeoutError and _StandsStillError when none came for OLD_S.
    """
    event, since, is_alive = "", time.monotonic(), False
    while True:
        if (left_s := since + OLD_S - time.monotonic()) <= 0:
            raise _StandsStillError
        from_.settimeout(left_s)
        try:
            line = response.readline(ANSWER_BYTES)
        except TimeoutError:
            if is_alive:
                raise _StandsStillError from None
            raise
        if not line:
            return
        is_alive = is_alive or line.strip() != b""  # an empty one ends an event
        name, _, value = line.rstrip(b"\r\n").partition(b": ")
        if name == b"event":
            event = value.decode(errors="replace")
        elif name == b"data" and event == wanted:
            yield value
            since, is_alive = time.monotonic(), False


def _status(data: bytes, node: str) -> Status:
    """Raises NoDaemon for another program, or another node; PairproxyError for another version of ours."""
    status = decoded(data, Status, NoDaemon("Another program answers at the daemon's port."))
    if status.node != node:
        raise NoDaemon("Another daemon answers at the port.")
    return status

"""How long nobody answered on a port while an engine was moved: measured, for it is what clients notice."""

import socket
import threading
import time
from types import TracebackType
from typing import Self

LOOK_S = 0.01  # between two looks; a gap is told to this exactness
CONNECT_S = 1.0  # a listener with room answers at once; longer is a gap too


class Gap:
    """A context manager; within it the port of 127.0.0.1 is tried all the time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, name="port's gap", daemon=True)
        self._since: float | None = None
        self.total_s = 0.0
        """Seconds in which a connection was refused, all together."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._end.set()
        self._thread.join(CONNECT_S + 1.0)

    def _look(self) -> None:
        while not self._end.wait(LOOK_S):
            self._note(_is_open(self._port), time.monotonic())
        self._note(_is_open(self._port), time.monotonic())

    def _note(self, is_open: bool, now: float) -> None:
        if self._since is not None:
            self.total_s += now - self._since
        self._since = None if is_open else now


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), CONNECT_S).close()
    except OSError:
        return False
    return True

"""A client without habits of its own: one connection a request, nothing retried, everything seen."""

import http.client
import io
import json
import socket
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.support.h11_oracle import EXCHANGES, Exchange

MODEL = "paced:1b"
TIMEOUT_S = 30.0
CHAT = {"ollama": "/api/chat", "openai": "/v1/chat/completions"}


@dataclass
class Got:
    """One reply. ``is_whole`` is False if it broke off before the end that its framing promised."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    is_whole: bool = True
    seconds: float = 0.0

    @property
    def node(self) -> str:
        return self.headers["x-pairproxy-node"]

    @property
    def attempts(self) -> int:
        return int(self.headers["x-pairproxy-attempts"])

    def json(self) -> Any:
        return json.loads(self.body)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


class RecordingConnection(http.client.HTTPConnection):
    """A connection whose bytes h11 reads as well; that an answer breaks off is the test's to judge (Got)."""

    def connect(self) -> None:
        """Connect, and note from now on what goes over it."""
        super().connect()
        exchange = Exchange(has_client_left=True)
        EXCHANGES.append(exchange)
        self.sock = RecordingSocket(self.sock, exchange)  # has what http.client asks for


class RecordingSocket:
    """A socket that notes what is sent and received through it."""

    def __init__(self, sock: socket.socket, exchange: Exchange) -> None:
        self._sock = sock
        self._exchange = exchange

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def sendall(self, data: bytes) -> None:
        """Note and send."""
        self._exchange.sent += data
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """What an answer is read from."""
        file = self._sock.makefile("rb", buffering=0)
        return io.BufferedReader(RecordingFile(file, self._exchange))


class RecordingFile(io.RawIOBase):
    """The raw end of such a socket."""

    def __init__(self, file: Any, exchange: Exchange) -> None:
        super().__init__()
        self._file = file
        self._exchange = exchange

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read and note."""
        count: int | None = self._file.readinto(buffer)
        if count and not self._exchange.is_cut:
            self._exchange.received += memoryview(buffer)[:count]
        return count

    def close(self) -> None:
        """Close the socket's own file, too."""
        self._file.close()
        super().close()


@dataclass
class Asker:
    """Sends requests for text to one port; ``ask`` waits, ``start`` does it in a thread."""

    port: int
    model: str = MODEL
    headers: Mapping[str, str] = field(default_factory=dict)

    def ask(self, words: str = "hello", *, tokens: int = 16, stream: bool = True, **more: Any) -> Got:
        """One Ollama chat. ``more`` are headers, underscores for dashes."""
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": words}],
            "stream": stream,
            "options": {"num_predict": tokens, "temperature": 0},
        }
        return self.request("POST", CHAT["ollama"], body, **more)

    def start(self, words: str = "hello", **more: Any) -> "Future[Got]":
        """The same in a thread."""
        pool = ThreadPoolExecutor(1)
        future = pool.submit(self.ask, words, **more)
        pool.shutdown(wait=False)
        return future

    def connection(self) -> http.client.HTTPConnection:
        """One for the next request."""
        return RecordingConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)

    def request(self, method: str, path: str, body: Any = None, **more: str) -> Got:
        """One request of any kind."""
        connection = self.connection()
        began_at = time.monotonic()
        try:
            content = None if body is None else json.dumps(body).encode()
            extra = {name.replace("_", "-"): value for name, value in more.items()}
            connection.request(
                method, path, content, {"Content-Type": "application/json", **self.headers, **extra}
            )
            response = connection.getresponse()
            got = Got(response.status, {name.lower(): value for name, value in response.getheaders()})
            try:
                got.body = response.read()
            except http.client.IncompleteRead as error:
                got.body, got.is_whole = error.partial, False
            except ConnectionError:
                got.is_whole = False
            got.seconds = time.monotonic() - began_at
            return got
        finally:
            connection.close()

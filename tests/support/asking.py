"""A client without habits of its own: one connection a request, nothing retried, everything seen."""

import http.client
import json
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

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
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)

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

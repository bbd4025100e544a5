"""An upstream and its clients on one loop, for a proxy in another process: the same work each time.

A token of a stream leaves when its client has the one before. So each is one read and one write of the proxy,
however busy the machine is. Of tokens that leave as they like, who is late reads several at once: the slower
proxy would have less to do.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count

from pairproxy.cli.bench.overhead.targets import MODEL, OPENAI_PATH

TOKENS = 100  # of a stream: a short reply
PATIENCE_S = 20.0  # for the replies of one round, which take half a second
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
STREAM = re.compile(rb'"id":"stream-(\d+)"')
END_OF_HEAD, END_OF_TOKEN, END_OF_STREAM = b"\r\n\r\n", b"\n\n\r\n", b"0\r\n\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LISTING = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": "bench"}]}
REPLY = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": MODEL,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
}  # fmt: skip


class NotAnswered(Exception):
    """A reply was not what was sent; its text says what came."""


class Upstream:
    """Who listens, and the streams that are under way, by number."""

    def __init__(self) -> None:
        self.port = 0
        self.streams: dict[int, _Answering] = {}
        self.numbers = count(1)

    def go_on(self, number: int) -> None:
        """Send the next token of a stream, for the one before has arrived."""
        if stream := self.streams.get(number):
            stream.send_token()


class _Answering(asyncio.Protocol):
    """One connection of the proxy: requests in, replies out."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._received = bytearray()
        self._number, self._left = 0, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        self._upstream.streams.pop(self._number, None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not is_whole(self._received):
            return
        request, self._received = self._received, bytearray()
        if request.startswith(b"GET "):
            self._write(document(LISTING if b"/v1/models" in request.partition(b"\r\n")[0] else None))
        elif b'"stream": true' in request:
            self._number, self._left = next(self._upstream.numbers), TOKENS
            self._upstream.streams[self._number] = self
            self._write(STREAM_HEAD)
            self.send_token()
        else:
            self._write(document(REPLY))

    def send_token(self) -> None:
        """The next one; after the last the end of the stream."""
        self._left -= 1
        self._write(chunk(token(self._number, is_last=self._left == 0)))
        if self._left == 0:
            del self._upstream.streams[self._number]
            self._write(chunk(b"data: [DONE]\n\n") + END_OF_STREAM)

    def _write(self, data: bytes) -> None:
        if isinstance(self._transport, asyncio.Transport):
            self._transport.write(data)


def is_whole(message: bytes | bytearray) -> bool:
    """Whether a request or a reply has come to its end; chunked ones of ours end as no token does."""
    head, end, body = message.partition(END_OF_HEAD)
    if not end:
        return False
    if length := LENGTH.search(head):
        return len(body) >= int(length[1])
    return head.startswith(b"GET ") or body.endswith(END_OF_STREAM)


def document(content: object) -> bytes:
    """A whole reply; None: there is no such path."""
    body = b"" if content is None else json.dumps(content).encode()
    status = b"404 Not Found" if content is None else b"200 OK"
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


def chunk(data: bytes) -> bytes:
    """As chunked bodies have it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def token(number: int, *, is_last: bool) -> bytes:
    """One event of a stream, with the stream's number as its id."""
    return (
        b'data: {"id":"stream-%d","object":"chat.completion.chunk","created":1700000000,"model":"%b",'
        b'"choices":[{"index":0,"delta":{"role":"assistant","content":" sea"},"finish_reason":%b}]}\n\n'
    ) % (number, MODEL.encode(), b'"stop"' if is_last else b"null")


@asynccontextmanager
async def upstream() -> AsyncIterator[Upstream]:
    """It listens for the block."""
    found = Upstream()
    server = await asyncio.get_running_loop().create_server(lambda: _Answering(found), "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()


class Clients:
    """Some connections, each of which asks the same again as soon as it is answered."""

    def __init__(self, upstream: Upstream, port: int, body: bytes) -> None:
        head = f"POST {OPENAI_PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        self.request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self.upstream = upstream
        self.asking: list[_Asking] = []
        self._left, self._unanswered = 0, 0
        self._done: asyncio.Future[None] | None = None

    async def ask(self, requests: int) -> None:
        """So many requests in all. Raises NotAnswered."""
        self._left = self._unanswered = requests
        self._done = asyncio.get_running_loop().create_future()
        for one in self.asking:
            self._next(one)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._done
        except TimeoutError:
            told = f"{self._unanswered} of {requests} were not answered within {PATIENCE_S:.0f} s"
            raise NotAnswered(told) from None

    def answered(self, one: "_Asking", problem: str = "") -> None:
        """A reply has ended, as it should be or not."""
        if self._done is None or self._done.done():
            return
        self._unanswered -= 1
        if problem:
            self._done.set_exception(NotAnswered(problem))
        elif not self._unanswered:
            self._done.set_result(None)
        else:
            self._next(one)

    def _next(self, one: "_Asking") -> None:
        if self._left:
            self._left -= 1
            one.ask()


class _Asking(asyncio.Protocol):
    """One client."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._reply = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        self._clients.answered(self, "a connection was closed")

    def ask(self) -> None:
        """Send the request."""
        self._reply.clear()
        if isinstance(self.transport, asyncio.Transport):
            self.transport.write(self._clients.request)

    def data_received(self, data: bytes) -> None:
        self._reply += data
        if is_whole(self._reply):
            self._clients.answered(self, problem_of(bytes(self._reply)))
        elif self._reply.endswith(END_OF_TOKEN) and (number := STREAM.search(data)):
            self._clients.upstream.go_on(int(number[1]))


def problem_of(reply: bytes) -> str:
    """What is wrong with a whole reply; "": nothing."""
    if not reply.startswith(b"HTTP/1.1 200 "):
        return f"a reply was {reply[:200].decode(errors='replace')!r}"
    tokens = len(STREAM.findall(reply))
    if b"text/event-stream" in reply and tokens != TOKENS:
        return f"a stream had {tokens} tokens, not {TOKENS}"
    return ""


@asynccontextmanager
async def clients(upstream: Upstream, port: int, body: bytes, number: int) -> AsyncIterator[Clients]:
    """So many of them, connected for the block."""
    found, loop = Clients(upstream, port, body), asyncio.get_running_loop()
    try:
        for _ in range(number):
            _, one = await loop.create_connection(lambda: _Asking(found), "127.0.0.1", port)
            found.asking.append(one)
        yield found
    finally:
        for one in found.asking:
            with suppress(OSError):
                one.transport.close()

"""What our ports answer with: the same bytes as aiohttp's, which they once were."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from itertools import product
from typing import Any

import pytest
from aiohttp import HttpVersion, web
from aiohttp.http import StreamWriter
from multidict import CIMultiDict, CIMultiDictProxy

from pairproxy import responses
from pairproxy.responses import DRAINED_BYTES, Response, StreamResponse, http_date, read_http_date
from tests.support.running import run_async

FIELDS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
Make = Callable[[Any], Any]
"""Makes an answer with the module that is given."""


class Wire:
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        self.written = b""
        self.transport: Wire | None = self
        self.is_paused = self.is_closed = False
        self.drained = 0

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def abort(self) -> None:
        self.is_closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    _paused = False


class Asking:
    """A request of ours."""

    raw_path = path = "/status"
    query: Mapping[str, str] = {}
    headers: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())

    def __init__(self, wire: Wire, method: str = "GET", minor: int = 1, *, is_kept: bool = True) -> None:
        self.transport: Wire | None = wire
        self.method, self.version, self.keep_alive = method, (1, minor), is_kept
        self.wire, self.has_begun = wire, False

    def begun(self) -> None:
        self.has_begun = True

    async def drain(self) -> None:
        self.wire.drained += 1


class AiohttpRequest:
    """What aiohttp's responses ask of a request of theirs."""

    def __init__(self, wire: Wire, method: str, minor: int, *, is_kept: bool) -> None:
        self.method, self.version, self.keep_alive = method, HttpVersion(1, minor), is_kept
        self._payload_writer = StreamWriter(wire, asyncio.get_running_loop())  # type: ignore[arg-type]

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        response.headers.popall("Server", None)


WHOLE: dict[str, Make] = {
    "json": lambda of: of.Response(body=b"{}", content_type="application/json", headers=FIELDS),
    "text": lambda of: of.Response(body=b"<p>", content_type="text/html", charset="utf-8", headers=FIELDS),
    "large": lambda of: of.Response(body=b"x" * 100_000, content_type="text/plain"),
    "bare": lambda of: of.Response(body=b"x"),
    "nothing": lambda of: of.Response(headers={"Location": "/v2/there"}),
    "missing": lambda of: of.Response(status=404),
    "known": lambda of: of.Response(status=304, headers={"ETag": '"1"'}),
    "without": lambda of: of.Response(status=204),
    "refused": lambda of: closed(of.Response(body=b"{}", status=503)),
    "counted": lambda of: of.Response(headers={"Content-Length": "12", "Accept-Ranges": "bytes"}),
}  # fmt: skip
LENGTHS = [None, 0, 4, 7]


def closed(response: Any) -> Any:
    """The same, after which no other may follow."""
    response.force_close()
    return response


async def sent(response: Any, request: Any, parts: tuple[bytes, ...] = ()) -> None:
    """Send an answer, with these parts."""
    await response.prepare(request)
    for part in parts:
        await response.write(part)
    await response.write_eof()


def undated(written: bytes) -> bytes:
    """What was written, but for the time."""
    return re.sub(rb"\r\nDate: [^\r]+", b"\r\nDate: now", written)


@pytest.mark.parametrize(
    ("kind", "method", "minor", "is_kept"),
    [
        *product(WHOLE, ("HEAD",), (0, 1), (True, False)),
        *product(list(WHOLE)[:-1], ("GET", "POST"), (0, 1), (True, False)),  # which has no body
    ],
)
def test_a_whole_answer_is_written_as_aiohttp_writes_it(
    kind: str, method: str, minor: int, is_kept: bool
) -> None:
    """Whatever is asked, by whichever client."""

    async def run() -> None:
        theirs, ours = Wire(), Wire()
        await sent(WHOLE[kind](web), AiohttpRequest(theirs, method, minor, is_kept=is_kept))
        await sent(WHOLE[kind](responses), Asking(ours, method, minor, is_kept=is_kept))
        assert undated(ours.written) == undated(theirs.written)

    run_async(run())


@pytest.mark.parametrize(
    ("length", "method", "minor", "is_kept"), list(product(LENGTHS, ("GET", "HEAD"), (0, 1), (True, False)))
)
def test_parts_are_written_as_aiohttp_writes_them(
    length: int | None, method: str, minor: int, is_kept: bool
) -> None:
    """With a length or without."""

    async def run() -> None:
        parts = (b"one", b"", b"four")
        theirs, ours = Wire(), Wire()
        fields = {"Content-Type": "application/x-ndjson"}
        there = web.StreamResponse(status=206, headers=fields)
        here = StreamResponse(status=206, headers=fields)
        if length is not None:
            there.content_length = length
            here.tell_length(length)
        asked = AiohttpRequest(theirs, method, minor, is_kept=is_kept)
        await there.prepare(asked)  # type: ignore[arg-type]
        if method != "HEAD":  # its writer leaves it to the handler not to write a body
            for part in parts:
                await there.write(part)
        await there.write_eof()
        await sent(here, Asking(ours, method, minor, is_kept=is_kept), parts)
        assert undated(ours.written) == undated(theirs.written)

    run_async(run())


def test_a_stream_to_an_old_client_ends_with_its_connection() -> None:
    """Nothing else could tell it that this was all."""

    async def run() -> None:
        response = StreamResponse()
        await sent(response, Asking(Wire(), minor=0), (b"x",))
        assert response.keep_alive is False

    run_async(run())


def test_a_client_that_takes_nothing_is_waited_for() -> None:
    """Once enough was written."""

    async def run() -> None:
        request: Any = Asking(wire := Wire())
        response = StreamResponse()
        await response.prepare(request)
        await response.write(b"x")
        assert wire.drained == 0
        await response.write(b"x" * DRAINED_BYTES)
        assert wire.drained == 1

    run_async(run())


@pytest.mark.parametrize("is_lost", [True, False])
def test_who_left_is_written_nothing(is_lost: bool) -> None:
    """Whoever answers hears of it."""

    async def run() -> None:
        request = Asking(wire := Wire())
        wire.is_closed = True
        request.transport = None if is_lost else wire
        with pytest.raises(ConnectionResetError):
            await sent(Response(b"x"), request)
        assert not wire.written
        assert not request.has_begun

    run_async(run())


def test_a_request_hears_that_its_answer_began() -> None:
    """When its first bytes went."""

    async def run() -> None:
        request: Any = Asking(Wire())
        response = Response(b"x")
        assert not response.prepared
        await response.prepare(request)
        assert response.prepared
        assert not request.has_begun  # its head goes with its body
        await response.write_eof()
        assert request.has_begun
        assert response.prepared

    run_async(run())


def test_an_answer_is_sent_once() -> None:
    """Whoever sends it again."""

    async def run() -> None:
        request = Asking(wire := Wire())
        response = Response(b"x")
        await sent(response, request)
        first = wire.written
        await sent(response, request)
        assert wire.written == first

    run_async(run())


def test_less_than_was_told_ends_the_connection() -> None:
    """What comes next on it would be taken for the rest."""

    async def run() -> None:
        response = StreamResponse()
        response.tell_length(9)
        with pytest.raises(ConnectionResetError):
            await sent(response, Asking(wire := Wire()), (b"one",))
        assert wire.is_closed

    run_async(run())


def test_no_answer_is_of_a_version_that_we_do_not_speak() -> None:
    """Whatever the request said."""

    async def run() -> None:
        request: Any = Asking(wire := Wire())
        request.version = (2, 0)
        await sent(Response(b"x"), request)
        assert wire.written.startswith(b"HTTP/1.1 200 OK\r\n")

    run_async(run())


def test_no_value_ends_its_line() -> None:
    """It would be a header that nobody meant."""

    async def run() -> None:
        with pytest.raises(ValueError, match="one line"):
            await sent(Response(headers={"Location": "/a\r\nSet-Cookie: b"}), Asking(Wire()))

    run_async(run())


def test_the_time_is_written_as_http_wants_it() -> None:
    """As the standard library's e-mail does."""
    before = formatdate(usegmt=True)
    assert http_date() in (before, formatdate(usegmt=True))


def test_a_time_that_was_written_is_read() -> None:
    """To the second."""
    assert read_http_date("Sun, 06 Nov 1994 08:49:37 GMT") == 784111777
    assert abs(read_http_date(http_date()) - time.time()) < 60


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 99 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nix 1994 08:49:37 GMT",
        "Sun, \u0660\u0666 Nov 1994 08:49:37 GMT",
    ],
)
def test_what_is_no_time_is_told(text: str) -> None:
    """Peers may send anything."""
    with pytest.raises(ValueError, match=r"date|day|tuple"):
        read_http_date(text)

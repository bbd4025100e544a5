"""What our ports answer with themselves: an answer that is whole, or one that goes on for a while.

Replies of engines are not made of these (proxy.downstream).
"""

import asyncio
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Protocol

from multidict import CIMultiDictProxy

DRAINED_BYTES = 64 * 1024  # written before it is asked whether the client takes it
JOINED_BYTES = 2048  # of a body that is copied to go with its head; a larger one goes beside it
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(r"[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT", re.ASCII)


class Asked(Protocol):
    """A request, as far as it is known to who answers it (proxy.request)."""

    @property
    def method(self) -> str:
        """As it came."""

    @property
    def version(self) -> tuple[int, int]:
        """Of HTTP."""

    @property
    def path(self) -> str:
        """Decoded, without a query."""

    @property
    def raw_path(self) -> str:
        """The target as it came."""

    @property
    def query(self) -> Mapping[str, str]:
        """Decoded; of a name that came twice the first."""

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        """As they came."""

    @property
    def keep_alive(self) -> bool:
        """Whether its client wants to ask more on this connection."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """Of its connection; None when that is lost."""

    def begun(self) -> None:
        """Hear that bytes of an answer were written."""

    async def drain(self) -> None:
        """Wait until the client took most of what was written. Raises ConnectionError."""


class StreamResponse:
    """An answer that is written part by part, framed in chunks unless its length is told before."""

    def __init__(self, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """``headers``: names as HTTP's specifications write them."""
        self.status = status
        self.headers: dict[str, str] = dict(headers or {})
        self.keep_alive: bool | None = None
        """Whether another request may follow on this connection; None: as its client wishes."""
        self._request: Asked | None = None
        self._is_chunked = False
        self._has_body = True
        self._left: int | None = None  # bytes of the length that was told
        self._undrained = 0
        self._is_over = False

    @property
    def prepared(self) -> bool:
        """Whether its head was made."""
        return self._request is not None or self._is_over

    def force_close(self) -> None:
        """Let no other request follow."""
        self.keep_alive = False

    def tell_length(self, size: int) -> None:
        """Say in the head how many bytes will follow; more are not sent."""
        self.headers["Content-Length"] = str(size)

    async def prepare(self, request: Asked) -> None:
        """Send its head. Raises ConnectionError."""
        if not self.prepared:
            self._send(self._opening(request))

    async def write(self, data: bytes) -> None:
        """Send a part, and wait while the client takes nothing. Raises ConnectionError."""
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        if not data or not self._has_body:
            return
        self._send(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)
        if self._undrained > DRAINED_BYTES and self._request is not None:
            self._undrained = 0
            await self._request.drain()

    async def write_eof(self) -> None:
        """That was all. Raises ConnectionError, also for less than the length that was told."""
        request = self._request
        if request is None:
            return
        if self._left and self._has_body:  # what comes next would be taken for the rest
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the answer is shorter than was told")
        if self._is_chunked:
            self._send(b"0\r\n\r\n")
        await request.drain()
        self._request, self._is_over = None, True

    def _opening(self, request: Asked) -> bytes:
        self._request = request
        status, fields = self.status, self.headers
        is_empty = request.method == "HEAD" or status < 200 or status in (204, 304)
        self._has_body = not is_empty
        if self.keep_alive is None:
            self.keep_alive = request.keep_alive
        if is_empty:
            if status < 200 or status == HTTPStatus.NO_CONTENT:
                fields.pop("Content-Length", None)
        else:
            length = fields.get("Content-Length")
            if length is not None:
                self._left = int(length)
            elif request.version >= (1, 1):
                self._is_chunked = True
                fields["Transfer-Encoding"] = "chunked"
            else:
                self.keep_alive = False  # its end is the connection's
            if self._left != 0:
                fields.setdefault("Content-Type", "application/octet-stream")
        if "Date" not in fields:
            fields["Date"] = http_date()
        if self.keep_alive and request.version == (1, 0):
            fields.setdefault("Connection", "keep-alive")
        elif not self.keep_alive and request.version == (1, 1):
            fields.setdefault("Connection", "close")
        return _head(request.version, status, fields)

    def _send(self, data: bytes) -> None:
        request = self._request
        transport = None if request is None else request.transport
        if request is None or transport is None or transport.is_closing():
            raise ConnectionResetError("the client left")
        transport.write(data)
        request.begun()
        self._undrained += len(data)


class Response(StreamResponse):
    """An answer that is whole."""

    def __init__(
        self,
        body: bytes = b"",
        *,
        status: int = 200,
        content_type: str | None = None,
        charset: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.body = body
        if content_type is not None:
            self.headers["Content-Type"] = content_type + (f"; charset={charset}" if charset else "")

    async def prepare(self, request: Asked) -> None:
        """Make its head, which goes with the body."""
        if self.prepared:
            return
        body, fields = self.body, self.headers
        if body or (self.status != HTTPStatus.NOT_MODIFIED and request.method != "HEAD"):
            fields.setdefault("Content-Length", str(len(body)))
        self._head_bytes = self._opening(request)

    async def write_eof(self) -> None:
        """Send all of it. Raises ConnectionError."""
        request = self._request
        if request is None:
            return
        body = self.body if self._has_body else b""
        if len(body) <= JOINED_BYTES:
            self._send(self._head_bytes + body)
        else:
            self._send(self._head_bytes)
            self._send(body)
        await request.drain()
        self._request, self._is_over = None, True


def http_date() -> str:
    """The time as HTTP writes it, in the words of no machine's language."""
    now = time.gmtime()
    day, month = _DAYS[now.tm_wday], _MONTHS[now.tm_mon - 1]
    return (
        f"{day}, {now.tm_mday:02} {month} {now.tm_year} {now.tm_hour:02}:{now.tm_min:02}:{now.tm_sec:02} GMT"
    )


def read_http_date(text: str) -> float:
    """Unix time of what http_date() wrote. Raises ValueError."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError("no date")
    day, month, year, hour, minute, second = match.groups()
    numbers = (int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second))
    return datetime(*numbers, tzinfo=UTC).timestamp()


def _head(version: tuple[int, int], status: int, fields: Mapping[str, str]) -> bytes:
    """Raises ValueError where a value would end its line."""
    major, minor = min(version, (1, 1))
    lines = [f"HTTP/{major}.{minor} {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    if any("\r" in line or "\n" in line or "\0" in line for line in lines):
        raise ValueError("a header of more than one line")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()

"""A request that came to a port of ours: a handful of attributes, set once.

It is one of aiohttp's by type, because the pages of the admin port and streams of lines answer with aiohttp's
responses. What only those ask of a request is made when they ask.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from aiohttp import HttpVersion, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import StreamWriter
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from pairproxy.proxy.content import Content, whole
from pairproxy.proxy.head import Head, RawFields

if TYPE_CHECKING:
    from pairproxy.proxy.connection import Connection


class Request(web.BaseRequest):
    """Request line, headers, the body as it comes, and the connection it came on."""

    __slots__ = (
        "_made_writer",
        "connection",
        "content",
        "content_length",
        "headers",
        "keep_alive",
        "method",
        "raw_headers",
        "raw_path",
        "version",
    )

    connection: "Connection"
    content: Content  # type: ignore[assignment]  # of aiohttp's stream the methods that are used
    content_length: int | None
    headers: CIMultiDictProxy[str]
    keep_alive: bool
    method: str
    raw_headers: RawFields
    raw_path: str
    version: HttpVersion

    def __init__(self, head: Head, content: Content, connection: "Connection") -> None:
        """Aiohttp's own is left out: it takes longer than all that a request needs here."""
        self.connection = connection
        self.content = content
        self.method = head.method
        self.raw_path = head.target
        self.version = head.version
        self.headers = head.fields
        self.raw_headers = head.raw_fields
        self.keep_alive = head.is_kept
        self.content_length = head.length if head.is_counted else None
        self._made_writer: AbstractStreamWriter | None = None
        self._state: dict[Any, Any] = {}
        self._cache: dict[str, Any] = {}

    @property
    def protocol(self) -> Any:
        """The connection that it came on."""
        return self.connection

    @property
    def transport(self) -> asyncio.Transport | None:
        """Of its connection; None when that is lost."""
        return self.connection.transport

    @property
    def remote(self) -> str | None:
        """The address that it came from."""
        return self.connection.remote

    @property
    def can_read_body(self) -> bool:
        """Whether a body came or will come."""
        return not self.content.at_eof()

    @property
    def writer(self) -> AbstractStreamWriter:
        """Writes aiohttp's responses."""
        return self._payload_writer

    @property
    def _payload_writer(self) -> AbstractStreamWriter:  # type: ignore[override]
        if self._made_writer is None:
            self._made_writer = StreamWriter(self.connection, asyncio.get_running_loop())
        return self._made_writer

    @property
    def _rel_url(self) -> URL:  # type: ignore[override]
        path, _, query = self.raw_path.partition("#")[0].partition("?")
        return URL.build(path=path if path.startswith("/") else f"/{path}", query_string=query, encoded=True)

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        """Nobody needs to know what to attack."""
        response.headers.popall("Server", None)

    @property
    def has_answer(self) -> bool:
        """Whether bytes of one of aiohttp's responses were written."""
        return self._made_writer is not None and self._made_writer.output_size > 0

    def _alike(self) -> "Request":
        twin = Request.__new__(Request)
        for name in Request.__slots__:
            setattr(twin, name, getattr(self, name))
        twin._state, twin._cache = dict(self._state), {}
        return twin


class Written(web.StreamResponse):
    """What a handler returns when the reply is on the wire already."""

    def __init__(self, is_keep_alive: bool) -> None:  # aiohttp's own makes what nobody asks of this one
        self._is_kept = is_keep_alive

    @property
    def keep_alive(self) -> bool | None:
        """Whether another request may follow on this connection."""
        return self._is_kept

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Nothing is left to send."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send."""


def content_of(request: web.BaseRequest) -> Content:
    """The body of a request that came to a port of ours, whatever its handler calls its type."""
    return cast(Content, request.content)


def with_headers(request: web.BaseRequest, fields: Iterable[tuple[str, str]]) -> web.BaseRequest:
    """The request as if it had come with these headers. Raises UnicodeError where they are not UTF-8."""
    twin = _twin(request)
    twin.headers = CIMultiDictProxy(CIMultiDict(fields))
    twin.raw_headers = tuple((name.encode(), text.encode()) for name, text in twin.headers.items())
    return twin


def with_body(request: web.BaseRequest, body: bytes) -> web.BaseRequest:
    """The request with its body, which was read, to be read again."""
    twin = _twin(request)
    twin.content = whole(body)
    return twin


def _twin(request: web.BaseRequest) -> Request:
    return cast(Request, request)._alike()

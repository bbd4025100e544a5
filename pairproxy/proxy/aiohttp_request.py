"""A request as aiohttp's handlers and responses want it: the pages of the admin port, streams of lines.

It is one of aiohttp's by type, over one of ours. What only those ask of a request is made when they ask.
"""

import asyncio
from typing import Any, cast

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import StreamWriter
from yarl import URL

from pairproxy.proxy.content import Content
from pairproxy.proxy.request import HttpRequest


class AiohttpRequest(web.BaseRequest):
    """The same request in aiohttp's words."""

    __slots__ = (
        "_made_writer", "content", "content_length", "headers", "keep_alive", "method", "ours", "raw_headers",
        "raw_path", "version",
    )  # fmt: skip

    content: Content  # type: ignore[assignment]  # of aiohttp's stream the methods that are used
    content_length: int | None

    def __init__(self, ours: HttpRequest) -> None:
        """Aiohttp's own is left out: it takes longer than all that a request needs here."""
        self.ours = ours
        """The request as it came."""
        self.content = ours.content
        self.method = ours.method
        self.raw_path = ours.raw_path
        self.version = ours.version
        self.headers = ours.headers
        self.raw_headers = ours.raw_headers
        self.keep_alive = ours.keep_alive
        self.content_length = ours.content_length
        self._made_writer: AbstractStreamWriter | None = None
        self._state: dict[Any, Any] = {}
        self._cache: dict[str, Any] = {}

    @property
    def protocol(self) -> Any:
        """The connection that it came on."""
        return self.ours.connection

    @property
    def transport(self) -> asyncio.Transport | None:
        """Of its connection; None when that is lost."""
        return self.ours.transport

    @property
    def remote(self) -> str | None:
        """The address that it came from."""
        return self.ours.remote

    @property
    def can_read_body(self) -> bool:
        """Whether a body came or will come."""
        return self.ours.can_read_body

    @property
    def writer(self) -> AbstractStreamWriter:
        """Writes aiohttp's responses."""
        return self._payload_writer

    @property
    def _payload_writer(self) -> AbstractStreamWriter:  # type: ignore[override]
        if self._made_writer is None:
            protocol = cast(BaseProtocol, self.ours.connection)  # it has what a writer asks of one
            self._made_writer = StreamWriter(protocol, asyncio.get_running_loop())
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


def as_aiohttp(request: HttpRequest) -> web.BaseRequest:
    """A request as aiohttp's handlers and responses want it, always the same one."""
    if request.view is None:
        request.view = AiohttpRequest(request)
    return request.view


def ours(request: web.BaseRequest) -> HttpRequest:
    """The request behind one that as_aiohttp() made."""
    return cast(AiohttpRequest, request).ours


def has_answer(request: HttpRequest) -> bool:
    """Whether bytes of one of aiohttp's responses were written to a request."""
    return request.view is not None and cast(AiohttpRequest, request.view).has_answer

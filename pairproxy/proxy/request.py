"""A request that came to a port of ours: a handful of attributes, set once.

What only pages and streams of lines ask of a request (pairproxy.responses) is made when they ask.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote

from multidict import CIMultiDict, CIMultiDictProxy

from pairproxy.proxy.content import Content, whole
from pairproxy.proxy.head import Head, RawFields
from pairproxy.proxy.said import Said
from pairproxy.security.client_keys import ClientKey

if TYPE_CHECKING:
    from pairproxy.proxy.connection import Connection


class HttpRequest:
    """Request line, headers, the body as it comes, and the connection it came on."""

    __slots__ = (
        "_said", "connection", "content", "content_length", "head", "headers", "keep_alive", "key", "method",
        "raw_headers", "raw_path", "version",
    )  # fmt: skip

    def __init__(self, head: Head, content: Content, connection: "Connection") -> None:
        self.connection = connection
        self.content = content
        self.head = head
        self.method: str = head.method
        self.raw_path: str = head.target
        self.version: tuple[int, int] = head.version
        self.headers: CIMultiDictProxy[str] = head.fields
        self.raw_headers: RawFields = head.raw_fields
        self.keep_alive: bool = head.is_kept
        self.content_length: int | None = head.length if head.is_counted else None
        self._said = head.said
        self.key: ClientKey | None = None
        """By which it was let in, at a port that asks for one (key_port)."""

    @property
    def said(self) -> Said:
        """What its headers say to a port."""
        said, head = self._said, self.head
        if said is None and self.headers is head.fields:  # and not those that somebody wants it to have
            said = head.said
        if said is None:
            said = Said(self.headers, self.raw_headers)
            if self.headers is head.fields:
                head.said = said
        self._said = said
        return said

    @property
    def transport(self) -> asyncio.Transport | None:
        """Of its connection; None when that is lost."""
        return self.connection.transport

    @property
    def path(self) -> str:
        """Decoded, without a query."""
        path = self.raw_path.partition("#")[0].partition("?")[0]
        return unquote(path if path.startswith("/") else f"/{path}")

    @property
    def query(self) -> dict[str, str]:
        """Decoded; of a name that came twice the first."""
        found: dict[str, str] = {}
        for name, value in parse_qsl(self.raw_path.partition("#")[0].partition("?")[2], True):
            found.setdefault(name, value)
        return found

    def begun(self) -> None:
        """Hear that bytes of an answer were written."""
        self.connection.has_answer = True

    async def drain(self) -> None:
        """Wait until the client took most of what was written. Raises ConnectionError."""
        await self.connection.drain()

    @property
    def remote(self) -> str | None:
        """The address that it came from."""
        return self.connection.remote

    @property
    def can_read_body(self) -> bool:
        """Whether a body came or will come."""
        return not self.content.at_eof()

    def with_headers(self, fields: Iterable[tuple[str, str]]) -> "HttpRequest":
        """The request as if it had come with these headers. Raises UnicodeError where they are not UTF-8."""
        twin = self._alike()
        twin.headers, twin._said = CIMultiDictProxy(CIMultiDict(fields)), None
        twin.raw_headers = tuple((name.encode(), text.encode()) for name, text in twin.headers.items())
        return twin

    def with_body(self, body: bytes) -> "HttpRequest":
        """The request with its body, which was read, to be read again."""
        twin = self._alike()
        twin.content = whole(body)
        return twin

    def _alike(self) -> "HttpRequest":
        twin = HttpRequest(self.head, self.content, self.connection)
        twin.headers, twin.raw_headers, twin._said = self.headers, self.raw_headers, self._said
        twin.key = self.key
        return twin


class Written:
    """What a handler returns when the reply is on the wire already."""

    __slots__ = ("keep_alive",)

    def __init__(self, is_keep_alive: bool) -> None:
        self.keep_alive: Final = is_keep_alive
        """Whether another request may follow on this connection."""

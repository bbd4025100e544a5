"""The head of a reply: status line and headers, read by httptools and judged by rules of our own.

A head that two parsers could read in two ways is refused. Line ends without CR and folded header lines are
accepted, as direct clients accept them: the head is written anew for the client, so nothing of them goes on.

Two heads of the same bytes are the same head, and an engine's streams of one second mostly have the same.
Such are read once (_read_again): that costs ten times as much as to find them again.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

import httptools

from pairproxy.upstreams.framing import Ending

HEADERS = 128  # in one reply; engines send 5 to 20
INTERIM_REPLIES = 1024  # 1xx before the final one; servers send one or two, and all of them count as header

REMEMBERED = 64  # heads, 256 KiB with what they were read into: some engines of a few kinds of replies each
REMEMBERED_BYTES = 1024  # a longer head is not remembered; those of engines have 100 to 400

SWITCHING = 101  # the connection leaves HTTP: what follows is raw

_INTERIM = frozenset({100, 102, 103})
_PREFIX = b"HTTP/1."
_FOLD = re.compile(rb"\r?\n[ \t]+")


class Malformed(Exception):
    """A reply that is not HTTP/1.1 as we accept it. The text is our word for the fault, never its bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Status line and headers as they came; ``framing`` says where the body that follows ends.

    Several replies may share one.
    """

    status: int
    reason: bytes
    version: tuple[int, int]
    headers: tuple[tuple[bytes, bytes], ...]
    framing: Ending
    keep_alive: bool
    raw: bytes = b""
    """Its bytes as they came, empty line included."""

    @property
    def is_remembered(self) -> bool:
        """Whether the next reply with the same head is likely to have this very one."""
        return len(self.raw) <= REMEMBERED_BYTES


class _Fields:
    """What httptools reports while it reads one head."""

    __slots__ = ("headers", "reason")

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.reason = b""

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))


class HeadReader:
    """Collects reads until the final head is there.

    ``limit_bytes`` bounds all heads together, interim ones included. Only with ``may_switch`` is 101 final.
    """

    __slots__ = ("_interim", "_is_bodiless", "_left", "_may_switch", "_waiting", "rest")

    def __init__(self, method: str, limit_bytes: int, may_switch: bool = False) -> None:
        self._is_bodiless = method == "HEAD"
        self._may_switch = may_switch
        self._left = limit_bytes
        self._waiting = b""
        self._interim = 0
        self.rest = b""
        """The bytes that came after the head, once it is there."""

    def feed(self, data: bytes) -> Head | None:
        """Return the final head, or None while it is incomplete. Raises Malformed."""
        start = max(len(self._waiting) - 3, 0)
        data = self._waiting + data
        while (end := _end_of_head(data, start)) >= 0:
            self._left -= end
            if self._left < 0:
                raise Malformed("its header is too large")
            head = _read(data[:end], self._is_bodiless)
            data = data[end:]
            start = 0
            if head.status >= 200 or (head.status == SWITCHING and self._may_switch):
                self.rest = data
                return head
            self._skip(head)
        self._waiting = data
        self._refuse_early()
        return None

    def _skip(self, head: Head) -> None:
        self._interim += 1
        if head.status not in _INTERIM:
            raise Malformed("it changed the protocol without being asked")
        if self._interim > INTERIM_REPLIES:
            raise Malformed("it sent too many interim replies")

    def _refuse_early(self) -> None:
        """Garbage is garbage from its first byte; waiting for its end could take for ever."""
        if self._waiting[: len(_PREFIX)] != _PREFIX[: len(self._waiting)]:
            raise Malformed("it is not HTTP/1")
        if len(self._waiting) > self._left:
            raise Malformed("its header is too large")


def _end_of_head(data: bytes, start: int) -> int:
    """Return the position after the first empty line, -1 if there is none; CR is optional."""
    usual = data.find(b"\n\r\n", start)
    bare = data.find(b"\n\n", start, usual + 1 if usual >= 0 else len(data))
    if bare >= 0:
        return bare + 2
    return usual + 3 if usual >= 0 else -1


def _read(raw: bytes, is_bodiless: bool) -> Head:
    return (_read_again if len(raw) <= REMEMBERED_BYTES else _parse)(raw, is_bodiless)


def _parse(raw: bytes, is_bodiless: bool) -> Head:
    if not raw.startswith(_PREFIX):
        raise Malformed("it is not HTTP/1")
    if b"\n " in raw or b"\n\t" in raw:
        raw = _FOLD.sub(b" ", raw)
    fields = _Fields()
    parser = httptools.HttpResponseParser(fields)
    parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # whether it was asked to is for HeadReader to judge
    except httptools.HttpParserError:
        raise Malformed("its header is not HTTP") from None
    status = parser.get_status_code()
    if not 100 <= status <= 599:
        raise Malformed("its status is none")
    if b"\0" in raw or len(fields.headers) > HEADERS:
        raise Malformed("its header is not HTTP")
    version = (1, 0) if parser.get_http_version() == "1.0" else (1, 1)
    return _judge(raw, status, fields, version, is_bodiless or status in (204, 304) or status < 200)


_read_again = lru_cache(REMEMBERED)(_parse)


def _judge(raw: bytes, status: int, fields: _Fields, version: tuple[int, int], is_bodiless: bool) -> Head:
    lengths: list[bytes] = []
    codings: list[bytes] = []
    tokens: set[bytes] = set()
    for name, value in fields.headers:
        match name.lower():
            case b"content-length":
                lengths.append(value.strip(b" \t"))
            case b"transfer-encoding":
                codings.append(value.strip(b" \t").lower())
            case b"connection":
                tokens.update(token.strip().lower() for token in value.split(b","))
    if codings and (codings != [b"chunked"] or lengths or version == (1, 0)):
        raise Malformed("it says in two ways where its body ends")
    if len(lengths) > 1 or not all(length.isdigit() and len(length) <= 18 for length in lengths):
        raise Malformed("its Content-Length is none")
    if status == SWITCHING:
        framing = Ending("close")
    elif is_bodiless:
        framing = Ending("none")
    elif codings:
        framing = Ending("chunked")
    else:
        framing = Ending("length", int(lengths[0])) if lengths else Ending("close")
    keeps = b"close" not in tokens and (version == (1, 1) or b"keep-alive" in tokens)
    return Head(
        status=status,
        reason=fields.reason,
        version=version,
        headers=tuple(fields.headers),
        framing=framing,
        keep_alive=keeps and framing.name != "close",
        raw=raw,
    )

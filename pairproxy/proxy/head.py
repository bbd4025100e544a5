"""The head of a request: read by one strict grammar, that of RFC 9112, in one pass.

What two parsers could read in two ways is refused, for the engine behind us has another one: line ends
without CR, folded lines, spaces before a colon, control characters, a body with two lengths or with a length
and chunks.
What is well formed and yet not for us (methods, versions, codings) passes, to be refused in words (form).

It is a regular expression because that is both the grammar as a person can check it and the fastest: llhttp
(through httptools) calls back for each header, 2.5 us for a usual head, and takes more than the RFC allows.
"""

import re

from multidict import CIMultiDict, CIMultiDictProxy

from pairproxy.proxy.headers import Fates
from pairproxy.proxy.said import Said

FIELDS = 128  # in one request; clients send 5 to 20
EARLY_BYTES = (
    4096  # of a head that is not whole which are looked at with each read: 25 us, as the read itself
)
REMEMBERED = 64  # heads, 256 KiB with what they were read into: of programs that ask the same again and again
REMEMBERED_BYTES = 1024  # a longer head is not remembered; those of programs have 100 to 500

_LINE = rb"([A-Z-]{1,20}) ([\x21-\x7e]+) HTTP/(0\.9|1\.[01]|2\.0)\r\n"
_FIELD = rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00-\x08\x0a-\x1f\x7f]*)\r\n"
_FIELDS = _FIELD.replace(b"(", b"(?:")
_HEAD = re.compile(_LINE + b"((?:" + _FIELDS + b")*)\r\n")
_EACH = re.compile(_FIELD)
_WHOLE_LINES = re.compile(_LINE.replace(b"(", b"(?:") + b"(?:" + _FIELDS + b")*")
_LINE_BEGUN = re.compile(rb"[A-Z-]{0,20}(?: [\x21-\x7e]*(?: [HTP/0-9.]{0,8}\r?)?)?")
_LENGTH = re.compile("[0-9]{1,19}")
_VERSIONS = {text: (int(text[:1]), int(text[2:])) for text in (b"0.9", b"1.0", b"1.1", b"2.0")}

_METHODS = {
    name.encode(): name
    for name in (
        *("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"),
        *("PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH"),
    )
}
"""Those that are methods, also where no engine knows them (WebDAV's)."""
_ONCE = (b"content-length", b"content-location", b"content-range", b"content-type", b"host", b"max-forwards",
         b"transfer-encoding", b"user-agent")  # fmt: skip
"""Headers whose second value some would take and others not (RFC 9110: they have one)."""

_SECRET = (
    b"auth", b"key", b"token", b"cookie", b"secret", b"session", b"passw", b"credential", b"jwt",
    b"assertion", b"sign",
)  # fmt: skip
_may_stay = Fates(lambda name: not any(word in name for word in _SECRET))
"""Whether a header may be kept in memory for longer than its request: by its name, no secret is in it."""

RawFields = tuple[tuple[bytes, bytes], ...]


class Malformed(Exception):
    """What is no request of HTTP/1.1 as we accept it. ``status``: what its sender is told."""

    def __init__(self, status: int = 400) -> None:
        super().__init__()
        self.status = status


class Head:
    """Request line and headers. ``length`` of the body in bytes; None where it comes in chunks.

    Several requests may share one. ``is_counted``: the length was told. ``is_kept``: another request may
    follow.
    """

    __slots__ = (
        "fields", "is_counted", "is_kept", "length", "method", "raw_fields", "said", "target", "version",
    )  # fmt: skip

    def __init__(self, line: "re.Match[bytes]") -> None:
        """``line``: a match of the grammar. Raises Malformed for what it cannot say."""
        method, target, version, lines = line.groups()
        if lines.count(b"\n") > FIELDS or method not in _METHODS:
            raise Malformed
        pairs = [(name, value.strip(b" \t")) for name, value in _EACH.findall(lines)]
        self.method = _METHODS[method]
        self.target = target.decode()
        self.version = _VERSIONS[version]
        if len({name.lower() for name, _ in pairs}) < len(pairs):
            _refuse_doubled([name.lower() for name, _ in pairs])
        self.raw_fields: RawFields = tuple(pairs)
        text = [(name.decode(), value.decode("utf-8", "surrogateescape")) for name, value in pairs]
        self.fields = CIMultiDictProxy(CIMultiDict(text))
        if self.version == (1, 1) and "Host" not in self.fields:
            raise Malformed
        self.length = self._framed()
        self.is_kept = self._keeps()
        self.said: Said | None = None
        """What its headers say to a port, once one asked (HttpRequest.said)."""

    def _framed(self) -> int | None:
        """Where the body ends. Raises Malformed where two could differ on that."""
        length, codings = self.fields.get("Content-Length"), self.fields.get("Transfer-Encoding")
        self.is_counted = length is not None
        if codings is None:
            if length is None:
                return 0
            if _LENGTH.fullmatch(length) is None:
                raise Malformed
            return int(length)
        named = [coding.strip(" \t").lower() for coding in codings.split(",")]
        is_read_alike = codings.isascii() and named[-1] == "chunked" and named.count("chunked") == 1
        if length is not None or self.version != (1, 1) or not is_read_alike:
            raise Malformed
        return None

    def _keeps(self) -> bool:
        tokens = self.fields.getall("Connection", ())
        if not tokens:
            return self.version == (1, 1)
        named = {token.strip(" \t").lower() for token in ",".join(tokens).split(",")}
        is_usual = self.version == (1, 1) or (self.version == (1, 0) and "keep-alive" in named)
        return is_usual and "close" not in named


def read_head(data: bytes, most_bytes: int) -> tuple[Head, int] | None:
    """The head that ``data`` begins with, and its size; None while it is not whole. Raises Malformed."""
    end = data.find(b"\r\n\r\n") + 4
    if end < 4:
        _refuse_early(data, most_bytes)
        return None
    if end > most_bytes:
        raise _too_large(data[:end], most_bytes)
    raw = data[:end]
    return _remembered.get(raw) or _read(raw), end


def _read(raw: bytes) -> Head:
    line = _HEAD.fullmatch(raw)
    if line is None:
        raise Malformed
    head = Head(line)
    is_open = "?" not in head.target and all(_may_stay[name] for name, _ in head.raw_fields)
    if is_open and len(raw) <= REMEMBERED_BYTES:
        if len(_remembered) >= REMEMBERED:
            del _remembered[next(iter(_remembered))]
        _remembered[raw] = head
    return head


_remembered: dict[bytes, Head] = {}
"""Heads that came before, oldest first: those that are the same to the byte are not read anew."""


def _refuse_doubled(names: list[bytes]) -> None:
    if any(names.count(name) > 1 for name in _ONCE):
        raise Malformed


def _refuse_early(data: bytes, most_bytes: int) -> None:
    """Garbage is garbage from its first lines; waiting for its end could take long."""
    if len(data) > most_bytes:
        raise _too_large(data, most_bytes)
    if len(data) > EARLY_BYTES:
        return
    whole = data.rfind(b"\n") + 1
    pattern = _WHOLE_LINES if whole else _LINE_BEGUN
    if pattern.fullmatch(data, 0, whole or len(data)) is None:
        raise Malformed


def _too_large(data: bytes, most_bytes: int) -> Malformed:
    """A line that is too long by itself is no line; all of them together are told as what they are."""
    return Malformed(400 if any(len(line) > most_bytes for line in data.split(b"\n")) else 431)

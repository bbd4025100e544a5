"""Which headers go on. Towards this node's engine all but hop-by-hop; between nodes an allow-list.

A header is judged by its name, and every message has the same few names: what becomes of each spelling is
worked out once (Fates), not for each header of each message.
"""

import re
from collections.abc import Callable, Iterable, Sequence

Headers = tuple[tuple[bytes, bytes], ...]
"""Raw (name, value) pairs in the order and spelling they came in."""

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"expect",
    }
)
OWN_PREFIX = b"x-pairproxy-"
TO_PEER = frozenset({b"content-type", b"content-encoding", b"accept"})
FROM_PEER = frozenset(
    {
        b"content-type",
        b"content-length",
        b"transfer-encoding",
        b"cache-control",
        b"x-accel-buffering",
        b"date",
        b"retry-after",
    }
)
CONDITIONS = frozenset({b"if-none-match", b"if-modified-since", b"range", b"if-range"})
OF_BODY = frozenset(
    {b"content-length", b"transfer-encoding", b"etag", b"last-modified", b"accept-ranges", b"date"}
)

RUN = "X-Pairproxy-Run"
CHAIN = "X-Pairproxy-Chain"
LOCAL = "X-Pairproxy-Local"
REQUEST = "X-Pairproxy-Request"
ATTEMPT = "X-Pairproxy-Attempt"
ENGINE = "X-Pairproxy-Engine"
NODE = "X-Pairproxy-Node"
ATTEMPTS = "X-Pairproxy-Attempts"
QUEUE = "X-Pairproxy-Queue-Seconds"
REFUSED = "X-Pairproxy-Refused"
PROTOCOL = "X-Pairproxy-Protocol"
TRACE = "traceparent"
SPELLINGS = 512  # of names that are remembered; clients and engines have about fifty
NAME_BYTES = 64  # a longer name is nobody's, and would be remembered for nothing
_NAMES_NOTHING = frozenset({b"keep-alive", b"Keep-Alive", b"close"})
"""What Connection nearly always says; it names no header that would not stay here anyway."""
_TRACE = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


class Fates(dict[bytes, bool]):
    """Whether a header goes on, by its name in any spelling."""

    def __init__(self, goes_on: Callable[[bytes], bool]) -> None:
        """``goes_on`` judges a name in lower case."""
        self._goes_on = goes_on

    def __missing__(self, name: bytes) -> bool:
        """Judge a spelling that was not seen before."""
        fate = self._goes_on(name.lower())
        if len(self) < SPELLINGS and len(name) <= NAME_BYTES:
            self[name] = fate
        return fate


_to_engine = Fates(lambda name: name not in HOP_BY_HOP and not name.startswith(OWN_PREFIX))
_to_peer = Fates(TO_PEER.__contains__)
_to_client = Fates(lambda name: name not in HOP_BY_HOP or name == b"transfer-encoding")
_from_peer = Fates(FROM_PEER.__contains__)
_is_connection = Fates(b"connection".__eq__)


def to_engine(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """A client's headers as its engine would have got them, hop-by-hop ones and our own apart."""
    return _past_this_hop(tuple(headers), _to_engine)


def to_peer(
    headers: Iterable[tuple[bytes, bytes]],
    body: bytes,
    extra: Iterable[tuple[str, str]],
    also: frozenset[bytes] = frozenset(),
) -> Headers:
    """What a peer may learn of a request: its body's type and size, and our own account of it.

    The size is counted here: however the body came in, it goes out whole. ``also`` names more headers that
    this one request is allowed to take along, in lower case.
    """
    if also:
        kept = [pair for pair in headers if pair[0].lower() in TO_PEER | also]
    else:
        kept = [pair for pair in headers if _to_peer[pair[0]]]
    own = tuple((name.encode(), value.encode()) for name, value in extra)
    return (*kept, (b"Content-Length", b"%d" % len(body)), *own)


def to_client(headers: Iterable[tuple[bytes, bytes]], is_from_peer: bool) -> Headers:
    """A reply's headers as the client gets them. Framing stays, since the body's bytes stay."""
    pairs = tuple(headers)
    if is_from_peer:
        return tuple([pair for pair in pairs if _from_peer[pair[0]]])
    return _past_this_hop(pairs, _to_client)


def unconditional(headers: Headers) -> Headers:
    """A request's headers without what lets the engine answer with less than its whole reply of now."""
    return tuple((name, value) for name, value in headers if name.lower() not in CONDITIONS)


def without_body(headers: Headers) -> Headers:
    """A reply's headers without those that speak of a body which the client will not get."""
    return tuple((name, value) for name, value in headers if name.lower() not in OF_BODY)


def decoded(headers: Headers) -> Headers:
    """The headers of a body that has no coding any more."""
    return tuple((name, value) for name, value in headers if name.lower() != b"content-encoding")


def with_length(headers: Headers, body: bytes) -> Headers:
    """The headers of a body that is not the client's any more: its size is told anew, where it was told."""
    size = b"%d" % len(body)
    return tuple((name, size if name.lower() == b"content-length" else value) for name, value in headers)


def trace_of(values: Sequence[str]) -> str:
    """The traceparent of a request, written as version 00; "" where there is none that can be read.

    ``values``: all of its headers of that name. The rules are those of W3C Trace Context, section 3.2.
    """
    match = _TRACE.fullmatch(values[0].strip(" \t")) if len(values) == 1 else None
    if match is None:
        return ""
    version, trace, parent, flags, more = match.groups()
    is_valid = version != "ff" and int(trace, 16) and int(parent, 16) and not (version == "00" and more)
    return f"00-{trace}-{parent}-{int(flags, 16) & 1:02}" if is_valid else ""


def on_trace(trace: str) -> tuple[tuple[str, str], ...]:
    """The header that tells a peer, or its engine, of which trace a request is."""
    return ((TRACE, trace),) if trace else ()


def first(headers: Iterable[tuple[bytes, bytes]], name: str) -> str | None:
    """The first value of a header, whatever its case."""
    wanted = name.lower().encode()
    for key, value in headers:
        if key.lower() == wanted:
            return value.decode("latin-1")
    return None


def named_by_connection(pairs: Headers) -> frozenset[bytes]:
    """The headers that Connection declares to be for this hop only (RFC 9110, 7.6.1)."""
    said = [value for name, value in pairs if _is_connection[name] and value not in _NAMES_NOTHING]
    if not said:
        return frozenset()
    tokens = {token.strip().lower() for value in said for token in value.split(b",")}
    return frozenset(tokens) - {b"close", b"content-length", b"host", b"transfer-encoding"}


def _past_this_hop(pairs: Headers, fates: Fates) -> Headers:
    kept = [pair for pair in pairs if fates[pair[0]]]
    if len(kept) < len(pairs) and (named := named_by_connection(pairs)):  # Connection is never kept itself
        kept = [pair for pair in kept if pair[0].lower() not in named]
    return tuple(kept)

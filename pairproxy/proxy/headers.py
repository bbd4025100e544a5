"""Which headers go on. Towards this node's engine all but hop-by-hop; between nodes an allow-list."""

import re
from collections.abc import Iterable, Sequence

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
_TRACE = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


def to_engine(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """A client's headers as its engine would have got them, hop-by-hop ones and our own apart."""
    pairs = tuple(headers)
    dropped = HOP_BY_HOP | named_by_connection(pairs)
    return tuple(
        (name, value)
        for name, value in pairs
        if name.lower() not in dropped and not name.lower().startswith(OWN_PREFIX)
    )


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
    allowed = TO_PEER | also
    kept = tuple((name, value) for name, value in headers if name.lower() in allowed)
    own = tuple((name.encode(), value.encode()) for name, value in extra)
    return (*kept, (b"Content-Length", b"%d" % len(body)), *own)


def to_client(headers: Iterable[tuple[bytes, bytes]], is_from_peer: bool) -> Headers:
    """A reply's headers as the client gets them. Framing stays, since the body's bytes stay."""
    pairs = tuple(headers)
    if is_from_peer:
        return tuple((name, value) for name, value in pairs if name.lower() in FROM_PEER)
    dropped = (HOP_BY_HOP - {b"transfer-encoding"}) | named_by_connection(pairs)
    return tuple((name, value) for name, value in pairs if name.lower() not in dropped)


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
    tokens = [
        token.strip().lower()
        for name, value in pairs
        if name.lower() == b"connection"
        for token in value.split(b",")
    ]
    return frozenset(tokens) - {b"close", b"content-length", b"host"}

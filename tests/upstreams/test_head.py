"""Heads of replies: what is read, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.upstreams.framing import Ending
from pairproxy.upstreams.head import (
    HEADERS,
    INTERIM_REPLIES,
    REMEMBERED_BYTES,
    Head,
    HeadReader,
    Malformed,
)

LIMIT = 64 * 1024
OK = b"HTTP/1.1 200 OK\r\n"


def read(data: bytes, method: str = "GET", size: int = 0) -> tuple[Head | None, bytes]:
    """Read a head in pieces of ``size`` (0: at once); return it and the bytes behind it."""
    reader = HeadReader(method, LIMIT)
    head = None
    if size:
        for start in range(0, len(data), size):
            head = reader.feed(data[start : start + size])
            if head is not None:
                return head, reader.rest + data[start + size :]
        return None, b""
    return reader.feed(data), reader.rest


@given(st.integers(1, 80))
def test_a_head_reads_the_same_however_it_is_split(size: int) -> None:
    """Names and values keep their order and letters; the bytes behind the head are kept."""
    data = b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 Fine Day\r\nB: 1\r\na:  2 \r\nB: 3\r\n\r\nbody"
    head, rest = read(data, size=size)
    assert head is not None
    assert (head.status, head.reason, head.version) == (200, b"Fine Day", (1, 1))
    assert head.headers == ((b"B", b"1"), (b"a", b"2 "), (b"B", b"3"))
    assert rest == b"body"


@pytest.mark.parametrize(
    ("lines", "method", "framing", "keep_alive"),
    [
        (OK + b"Content-Length: 5\r\n", "GET", "length", True),
        (OK + b"content-length: 0 \r\nConnection: Close\r\n", "GET", "length", False),
        (OK + b"Transfer-Encoding: Chunked\r\nConnection: x, close\r\n", "GET", "chunked", False),
        (OK + b"TRANSFER-ENCODING: chunked \r\n", "POST", "chunked", True),
        (OK, "GET", "close", False),
        (OK + b"Content-Length: 5\r\n", "HEAD", "none", True),
        (OK + b"Transfer-Encoding: chunked\r\n", "HEAD", "none", True),
        (b"HTTP/1.1 204 No Content\r\n", "GET", "none", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n", "GET", "none", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n", "GET", "length", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n", "GET", "length", True),
        (b"HTTP/1.1 500\r\nContent-Length: 5\r\n", "GET", "length", True),
        (b"HTTP/1.1 200 OK\nContent-Length: 5\n", "GET", "length", True),  # J18: bare LF
        (OK + b"X: a\r\n  folded\r\nContent-Length: 5\r\n", "GET", "length", True),  # J18: obs-fold
    ],
)
def test_the_head_says_where_the_body_ends(lines: bytes, method: str, framing: str, keep_alive: bool) -> None:
    """Framing and reuse follow from method, status and headers."""
    head, _ = read(lines + (b"\n" if b"\r\n" not in lines else b"\r\n"), method)
    assert head is not None
    assert (head.framing.name, head.keep_alive) == (framing, keep_alive)


def test_a_bare_line_feed_ends_the_head_before_any_later_empty_line() -> None:
    """The body starts after the first empty line, with or without CR."""
    head, rest = read(b"HTTP/1.1 200 OK\nContent-Length: 9\n\nab\r\n\r\ncde")
    assert head is not None
    assert rest == b"ab\r\n\r\ncde"


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01garbage", b"hello world", b"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/0.9 200 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n", b"HTTP/1.1 20\r\n\r\n", b"HTTP/1.1 999 X\r\n\r\n", b"HTTP/1.1 099 X\r\n\r\n",
        b"HTTP/1.1 600 X\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n", b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 150 X\r\n\r\n",
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 5, 5\r\n\r\n",
        OK + b"Content-Length: 0x5\r\n\r\n", OK + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
        OK + b"Content-Length:\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", OK + b"Transfer-Encoding: identity\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK + b"A: b\0c\r\n\r\n", OK + b"A: b\rc\r\n\r\n", b"HTTP/1.1 200 O\rK\r\n\r\n",
        b"HTTP/1.1 200 O\0K\r\n\r\n", OK + b"A : b\r\n\r\n",
        OK + b"no colon\r\n\r\n", OK + b"X: y\r\n" * (HEADERS + 1) + b"\r\n", OK + b"X: " + b"y" * LIMIT,
        OK + b"X: " + b"y" * LIMIT + b"\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * (INTERIM_REPLIES + 1) + OK + b"\r\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 0])
def test_a_head_that_could_be_read_in_two_ways_is_refused(data: bytes, size: int) -> None:
    """The fault is named in our own words, without a byte of the reply."""
    with pytest.raises(Malformed) as caught:
        read(data, size=size)
    assert str(caught.value).isascii()
    assert "garbage" not in str(caught.value)


def test_garbage_is_refused_at_its_first_byte() -> None:
    """There is no waiting for a head that cannot come."""
    with pytest.raises(Malformed):
        HeadReader("GET", LIMIT).feed(b"h")


def test_interim_replies_are_skipped() -> None:
    """Continue, Processing and Early Hints come to nothing."""
    interim = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early\r\nLink: a\r\n\r\n"
    )
    head, rest = read(interim + OK + b"Content-Length: 2\r\n\r\nok")
    assert head is not None
    assert (head.status, head.headers, rest) == (200, ((b"Content-Length", b"2"),), b"ok")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_101_is_an_answer_to_who_asked_for_it(size: int) -> None:
    """Its bytes are kept as they came, and everything behind it is raw."""
    raw = b"HTTP/1.1 101 Now\r\nconnection: Upgrade\r\nUPGRADE: x\r\nX-Odd:  1 \r\n\r\n"
    reader = HeadReader("GET", LIMIT, may_switch=True)
    data = b"HTTP/1.1 100 Continue\r\n\r\n" + raw + b"HTTP/1.1 no more"
    start, head = 0, None
    while head is None:
        head = reader.feed(data[start : start + size])
        start += size
    assert (head.status, head.raw, head.framing.name, head.keep_alive) == (101, raw, "close", False)
    assert reader.rest + data[start:] == b"HTTP/1.1 no more"


def test_a_long_header_within_the_limit_passes() -> None:
    """20 KiB are allowed: the limit is on all headers together."""
    head, _ = read(OK + b"X: " + b"y" * 20_000 + b"\r\nContent-Length: 0\r\n\r\n")
    assert head is not None


THREE = Ending("length", 3)


@pytest.mark.parametrize(("extra", "is_same"), [(0, True), (REMEMBERED_BYTES, False)])
def test_a_head_that_came_before_is_not_read_again(extra: int, is_same: bool) -> None:
    """Unless it is a long one; it is another head all the same where another method was asked for."""
    raw = OK + b"Content-Length: 3\r\nX: " + b"x" * extra + b"\r\n\r\n"
    (first, _), (second, _), (other, _) = read(raw), read(raw + b"abc"), read(raw, "HEAD")
    assert first is not None
    assert second is not None
    assert other is not None
    assert (first is second) == first.is_remembered == is_same
    assert (first.framing, second.framing, other.framing) == (THREE, THREE, Ending("none"))


def test_two_replies_with_one_head_have_two_bodies() -> None:
    """Where the one has got to is no matter of the other."""
    head, _ = read(OK + b"Content-Length: 3\r\n\r\n")
    assert head is not None
    bodies = [head.framing.begin() for _ in range(2)]
    taken = [body.feed(data) for body, data in zip(bodies, (b"abc", b"a"), strict=True)]
    assert taken == [(3, b"abc"), (1, b"a")]
    assert [body.is_done for body in bodies] == [True, False]

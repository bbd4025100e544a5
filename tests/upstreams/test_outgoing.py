"""Requests as bytes: written as given, and never as two."""

import pytest

from pairproxy.core.errors import BadRequest
from pairproxy.upstreams import Outgoing
from pairproxy.upstreams.outgoing import SLICE_BYTES, request_head, upload
from tests.support.engine_scripts import pieces_of
from tests.support.running import run_async


def test_the_head_is_what_was_given_in_order() -> None:
    """Target, header names, values and their order are the client's own."""
    target = "//api/a%2Fb?x=\udcff"
    outgoing = Outgoing("POST", target, ((b"hOST", b"a:1"), (b"X", b"\xff"), (b"X", b""), (b"Host", b"b")), b"")
    expected = b"POST //api/a%2Fb?x=\xff HTTP/1.1\r\nhOST: a:1\r\nX: \xff\r\nX: \r\nHost: b\r\n\r\n"
    assert request_head(outgoing) == expected
    assert request_head(Outgoing("GET", "/", version=(1, 0))) == b"GET / HTTP/1.0\r\n\r\n"


def test_an_iterator_is_chunked_unless_its_length_is_given() -> None:
    """A known length stays known, an unknown one stays chunked."""
    body = pieces_of(b"", 1)
    assert b"\r\nTransfer-Encoding: chunked\r\n" in request_head(Outgoing("POST", "/", ((b"A", b"b"),), body))
    known = Outgoing("POST", "/", ((b"content-LENGTH", b"5"),), body)
    assert b"Transfer-Encoding" not in request_head(known)


@pytest.mark.parametrize(
    "outgoing",
    [
        Outgoing("GET", "/a b"),
        Outgoing("GET", "/a HTTP/1.1\r\nX: y\r\n\r\nGET /"),
        Outgoing("GET /x", "/"),
        Outgoing("GET", "/\n"),
        Outgoing("GET", "/\0"),
        Outgoing("GET", "/", ((b"A", b"b\r\nC: d"),)),
        Outgoing("GET", "/", ((b"A", b"b\rc"),)),
        Outgoing("GET", "/", ((b"A\n", b"b"),)),
        Outgoing("GET", "/", ((b"A", b"\0"),)),
        Outgoing("POST", "/", (), pieces_of(b"x", 1), version=(1, 0)),
    ],
)
def test_nothing_in_a_request_can_begin_another_one(outgoing: Outgoing) -> None:
    """Line breaks and spaces where none belong are refused before a byte is sent."""
    with pytest.raises(BadRequest):
        request_head(outgoing)


@pytest.mark.parametrize("size", [SLICE_BYTES - 1, SLICE_BYTES, 3 * SLICE_BYTES + 1])
def test_a_large_body_goes_in_slices_and_waits_before_each(size: int) -> None:
    """What is handed over at once is bounded."""
    body = bytes(range(256)) * (size // 256 + 1)
    written: list[bytes] = []
    waits = 0

    async def writable() -> None:
        nonlocal waits
        waits += 1

    run_async(upload(Outgoing("POST", "/", (), body[:size]), written.append, writable))
    assert b"".join(written) == body[:size]
    assert max(map(len, written)) <= SLICE_BYTES
    assert waits == len(written)


@pytest.mark.parametrize(("headers", "expected"), [((), b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"), (((b"Content-Length", b"4"),), b"abcd")])
def test_an_iterator_is_framed_as_its_head_says(headers: tuple[tuple[bytes, bytes], ...], expected: bytes) -> None:
    """Each part is one chunk, or goes as it is under a Content-Length."""
    written: list[bytes] = []

    async def writable() -> None:
        pass

    run_async(upload(Outgoing("POST", "/", headers, pieces_of(b"abcd", 3)), written.append, writable))
    assert b"".join(written) == expected

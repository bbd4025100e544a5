"""What comes on a connection, cut into requests wherever the network cut it."""

import pytest

from pairproxy.proxy.content import BrokenFraming, Content
from pairproxy.proxy.head import Malformed
from pairproxy.proxy.inflow import BEHIND_BYTES, Inflow
from tests.support.engine_scripts import LAST_CHUNK, chunk
from tests.support.raw_client import request
from tests.support.running import run_async

POST = "POST /a HTTP/1.1"
CHUNKED = "Transfer-Encoding: chunked"
STREAM = (
    request(POST, b"one"),
    request("GET /b HTTP/1.1", None) + b"\r\n",
    request(POST, chunk(b"tw") + chunk(b"o") + LAST_CHUNK, CHUNKED),
    request(POST, b""),
)


def held(_: bool) -> None:
    """Nobody minds."""


def cut(pieces: list[bytes]) -> list[tuple[str, bytes | None]]:
    """Targets and bodies of the requests in these reads."""
    inflow, found = Inflow(1024), list[tuple[str, Content]]()
    for piece in pieces:
        inflow.feed(piece)
        while not inflow.is_in_body and (one := inflow.next(held)) is not None:
            found.append((one[0].target, one[1]))
    return [(target, content.whole()) for target, content in found]


def test_requests_are_the_same_however_they_are_cut() -> None:
    """In one read, byte by byte, and in two pieces at each place."""
    data = b"".join(STREAM)
    expected = [("/a", b"one"), ("/b", b""), ("/a", b"two"), ("/a", b"")]
    assert cut([data]) == expected
    assert cut([data[at : at + 1] for at in range(len(data))]) == expected
    for at in range(len(data)):
        assert cut([data[:at], data[at:]]) == expected


def test_what_came_behind_a_request_can_be_had() -> None:
    """It belongs to what the connection was upgraded to."""
    inflow = Inflow(1024)
    inflow.feed(request("GET /b HTTP/1.1", None) + b"early")
    assert inflow.next(held) is not None
    inflow.feed(b" bird")
    assert (inflow.rest(), inflow.rest()) == (b"early bird", b"")


def test_too_much_behind_a_request_is_told() -> None:
    """It is for the connection to read no more."""
    inflow = Inflow(1024)
    inflow.feed(b"x" * BEHIND_BYTES)
    assert not inflow.is_full
    inflow.feed(b"x")
    assert inflow.is_full


@pytest.mark.parametrize("is_later", [False, True])
def test_broken_framing_ends_all(is_later: bool) -> None:
    """Its reader is told; nothing behind it is taken for a request."""

    async def main() -> None:
        inflow = Inflow(1024)
        head, rest = request(POST, chunk(b"good"), CHUNKED), b"zz\r\n"
        inflow.feed(head if is_later else head + rest)
        found = inflow.next(held)
        assert found is not None
        if is_later:
            assert not inflow.is_broken
            inflow.feed(rest)
        assert (inflow.is_in_body, inflow.is_broken) == (True, True)
        assert await found[1].readany() == b"good"
        with pytest.raises(BrokenFraming):
            await found[1].readany()
        inflow.feed(request("GET /b HTTP/1.1", None))
        assert inflow.rest() == b""

    run_async(main())


def test_line_ends_before_a_request_are_nothing() -> None:
    """However many; what is no request is refused."""
    inflow = Inflow(1024)
    inflow.feed(b"\r\n" * 1024)
    assert inflow.next(held) is None
    inflow.feed(b"nonsense\r\n\r\n")
    with pytest.raises(Malformed):
        inflow.next(held)

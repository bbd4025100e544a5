"""The outside judge itself: it accepts what a strict client accepts, and nothing else."""

import pytest

from tests.support.h11_oracle import Exchange, judge
from tests.support.raw_client import request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
GET = request("GET / HTTP/1.1", None)
GOOD = {
    "two in a row": (GET * 2, OK * 2, 2),
    "chunks": (GET, CHUNKED + b"2\r\nok\r\n0\r\n\r\n", 1),
    "to HEAD": (request("HEAD / HTTP/1.1", None), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", 1),
    "HEAD after a body": (
        request(body=b"{}") + request("HEAD / HTTP/1.1", None),
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
        2,
    ),
    "100 before": (GET, b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 1),
    "up to the end": (GET, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil here", 1),
    "an upgrade": (
        request("GET / HTTP/1.1", None, "Upgrade: websocket"),
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: any\r\n\r\n\x81\x00",
        0,
    ),
}
BAD = {
    "a chunk's size": (CHUNKED + b"zz\r\nok\r\n0\r\n\r\n", False),
    "no end of a chunk": (CHUNKED + b"2\r\nokay\r\n0\r\n\r\n", False),
    "two lengths": (OK.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n"), False),
    "a bare line": (b"hello\r\n\r\n", False),
    "a control character": (b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n", False),
    "more than its length": (OK + b"xx", False),
    "more after the last answer": (OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b"x", False),
    "too short": (OK[:-1], True),
    "no last chunk": (CHUNKED + b"2\r\nok\r\n", True),
}


@pytest.mark.parametrize(("sent", "received", "answers"), GOOD.values(), ids=GOOD.keys())
def test_what_is_right_is_accepted(sent: bytes, received: bytes, answers: int) -> None:
    """Each answer is counted, and belongs to its own request."""
    verdict = judge(Exchange(bytearray(sent), bytearray(received), has_ended=True))
    assert (verdict.fault, verdict.answers) == (None, answers)


@pytest.mark.parametrize(("received", "is_incomplete"), BAD.values(), ids=BAD.keys())
def test_what_is_wrong_is_not(received: bytes, is_incomplete: bool) -> None:
    """What breaks off is told apart from what is no HTTP."""
    verdict = judge(Exchange(bytearray(GET), bytearray(received), has_ended=True))
    assert verdict.fault is not None
    assert verdict.is_incomplete is is_incomplete


def test_a_client_that_left_asks_for_no_end() -> None:
    """What it did not wait for may be missing; what came has to be right all the same."""
    assert judge(Exchange(bytearray(GET), bytearray(OK[:-1]))).fault is None
    assert judge(Exchange(bytearray(GET), bytearray(b"hello\r\n\r\n"))).fault is not None

"""What is said where a request cannot be answered at all."""

import json
import logging

import pytest

from pairproxy.proxy.faults import last_words, log_fault


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (400, b"HTTP/1.1 400 Bad Request"),
        (431, b"HTTP/1.1 431 Request Header Fields Too Large"),
        (500, b"HTTP/1.1 500 Internal Server Error"),
    ],
)
def test_a_last_word_is_a_whole_answer(status: int, line: bytes) -> None:
    """As everything here it is JSON with an error, and it says that the connection ends."""
    head, _, body = last_words(status).partition(b"\r\n\r\n")
    first, *fields = head.split(b"\r\n")
    assert first == line
    assert b"Connection: close" in fields
    assert b"Content-Length: %d" % len(body) in fields
    assert set(json.loads(body)) == {"error"}


def test_a_fault_is_logged_by_its_place_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Its text may hold a prompt."""

    def fails() -> None:
        raise ValueError("CANARY-91ab")

    with caplog.at_level(logging.DEBUG):
        try:
            fails()
        except ValueError as error:
            log_fault(error)
    assert "ValueError in fails:" in caplog.text
    assert "CANARY" not in caplog.text

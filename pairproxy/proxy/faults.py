"""What is said where a request cannot be answered: to its client, and in the log, never a word of it."""

import logging
import traceback
from http import HTTPStatus

_NO_HTTP = b'{"error":"This is not a request as HTTP/1.1 wants it. Correct what sends it."}'
_FAULT = b'{"error":"pairproxy failed; its log says where."}'

_log = logging.getLogger(__name__)


def log_fault(error: Exception) -> None:
    """Say where pairproxy failed; never the error's text, which may hold a prompt."""
    steps = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{step.name}:{step.lineno}" for step in reversed(steps))
    _log.error("a fault of pairproxy: %s in %s. Please report it.", type(error).__name__, where)


def last_words(status: int) -> bytes:
    """A whole answer that ends its connection: to what is no HTTP (4xx), and to a fault of ours (5xx)."""
    body = _NO_HTTP if status < 500 else _FAULT
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        "Content-Type: application/json; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body

"""What is read beside the event loop, and what at once."""

import threading

import pytest

from pairproxy.aside import AT_ONCE_BYTES, AT_ONCE_COMMAS, aside
from pairproxy.core.dialects import reading
from pairproxy.core.models import Request, RequestId
from tests.support.running import run_async


@pytest.mark.parametrize(
    ("body", "is_coded", "is_here"),
    [
        (b"x" * 100, False, True),
        (b"x" * AT_ONCE_BYTES, False, True),
        (b"x" * (AT_ONCE_BYTES + 1), False, False),
        (b"x" * 100, True, False),
        (b"{}," * AT_ONCE_COMMAS, False, True),
        (b"{}," * (AT_ONCE_COMMAS + 1), False, False),
    ],
)
def test_a_large_body_is_read_beside_the_loop(body: bytes, is_coded: bool, is_here: bool) -> None:
    """Also one that may become large when it is decoded, or has very many parts; a small one at once."""
    threads = []

    def read() -> Request:
        threads.append(threading.current_thread() is threading.main_thread())
        return reading.read(RequestId("r"), "/api/chat", b'{"model":"m"}')

    asked = run_async(aside(body, read, is_coded=is_coded))
    assert (asked.model, threads) == ("m:latest", [is_here])

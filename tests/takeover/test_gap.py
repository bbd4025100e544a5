import socket
import time

import pytest

from pairproxy.takeover.gap import Gap
from tests.support.free_ports import free_port

pytestmark = pytest.mark.timed


def test_a_port_that_is_always_there_has_no_gap() -> None:
    """Not a moment of it."""
    with socket.create_server(("127.0.0.1", 0)) as server, Gap(server.getsockname()[1]) as gap:
        for _ in range(20):
            server.accept()[0].close()
    assert gap.total_s == 0.0


def test_the_time_with_nobody_there_is_counted() -> None:
    """All of it, and no more than passed."""
    port, start = free_port(), time.monotonic()
    with Gap(port) as gap:
        while time.monotonic() - start < 0.1:
            time.sleep(0.01)
        with socket.create_server(("127.0.0.1", port)) as server:
            server.accept()[0].close()
            until, passed = time.monotonic(), time.monotonic() - start
            while time.monotonic() - until < 0.1:
                server.accept()[0].close()
            server.settimeout(0.0)
    assert 0.05 < gap.total_s < passed + 0.1

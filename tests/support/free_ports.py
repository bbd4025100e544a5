"""Ports for servers of a test that have to be known before they are bound."""

import contextlib
import socket
from contextlib import ExitStack
from random import SystemRandom

_random = (
    SystemRandom()
)  # others may have seeded the common one, as in the process that runs tests beside this


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has now, below those from which the system takes ends of connections.

    One of those may become the end of anybody's connection before it is used, or between two uses of it, and
    even of the one by which it is looked whether somebody listens: that then meets itself.
    """
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            port = _random.randrange(20_000, 32_000)
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
    return found


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]

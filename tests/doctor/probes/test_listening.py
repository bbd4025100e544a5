import os
import socket

import pytest

from pairproxy.doctor.facts import Listener, Unknown
from pairproxy.doctor.probes.listening import listeners, outside, reached
from pairproxy.peers.own_addresses import snapshot, usable


def test_a_listening_socket_is_found_with_its_program() -> None:
    """One of this process."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        found = listeners()
        if isinstance(found, Unknown):
            pytest.skip(found.why)
        port = sock.getsockname()[1]
        (one,) = [listener for listener in found if listener.port == port]
    assert (one.host, one.pid, bool(one.name)) == ("127.0.0.1", os.getpid(), True)


@pytest.mark.parametrize(
    ("host", "is_outside"),
    [
        ("127.0.0.1", False), ("127.8.8.8", False), ("::1", False), ("::ffff:127.0.0.1", False),
        ("0.0.0.0", True), ("::", True), ("10.0.0.1", True), ("fe80::1%eth0", True), ("odd", True),
    ],
)  # fmt: skip
def test_outside_is_what_is_not_loopback(host: str, is_outside: bool) -> None:
    """What cannot be read counts as outside: a warning too many is better than one too few."""
    assert bool(outside([Listener(host, 1)], 1)) is is_outside
    assert outside([Listener(host, 2)], 1) == []


def test_a_port_that_answers_from_outside_is_found_by_trying() -> None:
    """At an address of this machine that others may call; one on loopback is not."""
    own = usable(snapshot())
    if not own:
        pytest.skip("this machine has no address but loopback's")
    with socket.socket() as everywhere, socket.socket() as here:
        everywhere.bind(("0.0.0.0", 0))
        here.bind(("127.0.0.1", 0))
        for one in (everywhere, here):
            one.listen()
        ports = [one.getsockname()[1] for one in (everywhere, here)]
        found = reached(ports)
    assert {one.port for one in found} == {ports[0]}
    assert {one.host for one in found} <= {one.address for one in own}

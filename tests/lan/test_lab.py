"""The LAN itself: what the other tests here rely on."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lan.conftest import may_be_skipped
from tests.support.daemons import until
from tests.support.lan import Lan, lacking
from tests.support.lan_host import Host, LanError

PORT = 5000
LIVES = """
import sys, time
from tests.support.lan import Lan
with Lan(["a"]) as lan:
    lan["a"].run("sh", "-c", "sleep 60 >/dev/null 2>&1 &")
    print(*lan["a"].pids(), lan["a"].pid, lan.switch.pid, flush=True)
    time.sleep(60)
"""


def reaches(sender: Host, receiver: Host, timeout_s: float = 0.3) -> bool:
    """Whether a datagram arrives."""
    with (
        receiver.new_socket(kind=socket.SOCK_DGRAM) as there,
        sender.new_socket(kind=socket.SOCK_DGRAM) as here,
    ):
        there.bind((receiver.address, PORT))
        there.settimeout(timeout_s)
        here.sendto(b"hello", (receiver.address, PORT))
        try:
            return there.recv(16) == b"hello"
        except TimeoutError:
            return False


def test_hosts_are_apart_and_meet_on_the_switch() -> None:
    """Each host has its own name, addresses and ports; a connection arrives as from the one who made it."""
    with Lan(["anna", "ben"]) as lan:
        anna, ben = lan.hosts
        assert anna.run("hostname").strip() == "anna"
        assert [link.split()[0] for link in anna.run("ip", "-br", "link").splitlines()] == [
            "lo",
            f"eth0@if{3}",
        ]
        with ben.new_socket() as listener:
            listener.bind((ben.address, PORT))
            listener.listen()
            with anna.connect(ben.address, PORT, 5.0), listener.accept()[0] as met:
                assert met.getpeername()[0] == anna.address
        with pytest.raises(ConnectionRefusedError):
            anna.connect(anna.address, PORT, 5.0)


@pytest.mark.slow
def test_faults_are_what_they_say_and_heal() -> None:
    """A cut, a blocked direction and a partition each stop what they should, and nothing more."""
    with Lan(["anna", "ben", "cara"]) as lan:
        anna, ben, cara = lan.hosts
        until(lambda: reaches(anna, ben), "anna reaches ben")
        ben.cut()
        assert not reaches(anna, ben)
        assert "LOWER_UP" in ben.run("ip", "link", "show", "eth0"), "silent: the carrier stays"
        ben.unplug()
        assert "NO-CARRIER" in ben.run("ip", "link", "show", "eth0")
        ben.plug()
        lan.heal()
        lan.block(ben, anna)
        until(lambda: reaches(anna, ben), "anna reaches ben")
        assert not reaches(ben, anna)
        until(lambda: reaches(ben, cara), "ben reaches cara")
        lan.partition([anna], [ben, cara])
        assert not reaches(anna, cara)
        until(lambda: reaches(ben, cara), "ben reaches cara")
        lan.heal()
        until(lambda: reaches(ben, anna), "ben reaches anna")


def test_packets_are_counted() -> None:
    """The switch counts what hosts send, so that a budget can be asserted."""
    with Lan(["anna", "ben"]) as lan:
        anna, ben = lan.hosts
        until(lambda: reaches(anna, ben), "anna reaches ben")
        before = lan.forwarded()
        for _ in range(10):
            assert reaches(anna, ben)
        assert 10 <= lan.forwarded() - before < 30


def test_a_program_that_fails_is_told() -> None:
    """The words of a program that failed are in the error, so that a broken test says why."""
    with Lan(["anna"]) as lan, pytest.raises(LanError, match="no-such-device"):
        lan["anna"].run("ip", "link", "show", "no-such-device")


@pytest.mark.slow
def test_nothing_is_left_when_the_test_run_is_killed() -> None:
    """After kill -9 of whoever made the LAN its processes end by themselves, and with them its networks."""
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", LIVES], stdout=subprocess.PIPE, cwd=root, text=True
    ) as maker:
        assert maker.stdout is not None
        pids = [int(word) for word in maker.stdout.readline().split()]
        assert len(pids) == 3
        maker.send_signal(signal.SIGKILL)
    until(lambda: not any(is_running(pid) for pid in pids), "the rooms and what ran there are gone", 20.0)


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_is_missing_is_named_and_fails_in_ci() -> None:
    """Both packages by their names; in CI only a kernel that refuses is a reason to skip."""
    assert lacking("") == "a LAN needs the packages iproute2 and nftables"
    assert may_be_skipped({}, kernel_is_capable=True)
    assert may_be_skipped({"CI": "true"}, kernel_is_capable=False)
    assert not may_be_skipped({"CI": "true"}, kernel_is_capable=True)


def test_a_lan_is_made_in_a_moment() -> None:
    """Three hosts are there within seconds, so that each test can have a LAN of its own."""
    began_at = time.monotonic()
    with Lan(["anna", "ben", "cara"]):
        assert time.monotonic() - began_at < 30.0

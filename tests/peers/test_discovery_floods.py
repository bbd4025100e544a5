"""What announcements may cost, and any bytes that anybody may send."""

import asyncio
import base64
import socket
import struct
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeroconf import Zeroconf
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from pairproxy.peers.announcement import MOST_ADDRESSES, MOST_INSTANCES, SERVICE, Announcement, Reader, read
from pairproxy.peers.discovery import Pace
from tests.support.discovering import (
    ManualClock,
    Told,
    from_node,
    lives_are,
    loopback,
    new_id,
    running,
    until,
)
from tests.support.running import run_async

READER = Reader("AAAAAAAA", 11634, frozenset({"192.168.1.5"}))
ADDRESSES = st.one_of(
    st.ip_addresses().map(str), st.text(max_size=40), st.sampled_from(["127.0.0.1", "::1", "fe80::1%2", "0"])
)


@given(
    instance=st.text(max_size=300),
    text=st.binary(max_size=600),
    port=st.one_of(st.none(), st.integers(-5, 70_000)),
    addresses=st.lists(ADDRESSES, max_size=40),
)
def test_any_record_is_read_or_passed_over(
    instance: str, text: bytes, port: int | None, addresses: list[str]
) -> None:
    """I05, I07, I08: no bytes raise; what is read is printable and leads to other machines only."""
    known = b"\x0bid=K7QF2M6A\x03v=1"
    for content in (text, known + text):
        found = read(Announcement(f"{instance}.{SERVICE}", content, port, tuple(addresses)), READER)
        if found is None:
            continue
        assert found.instance.isprintable()
        assert len(found.instance) <= 64
        assert 0 < len(found.addresses) <= MOST_ADDRESSES
        for host, number in found.addresses:
            assert 1024 <= number <= 65535
            assert not host.startswith(("127.", "0.", "224.", "169.254.169.254"))
            assert host != "::1"


def packet(*records: bytes) -> bytes:
    """An mDNS answer with these records."""
    return struct.pack("!6H", 0, 0x8400, 0, len(records), 0, 0) + b"".join(records)


def name(*labels: bytes) -> bytes:
    """A domain name."""
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\x00"


def record(owner: bytes, kind: int, data: bytes, length: int | None = None) -> bytes:
    """A resource record; ``length`` lies about its data."""
    return owner + struct.pack("!HHIH", kind, 1, 120, len(data) if length is None else length) + data


SERVICE_NAME = name(b"_pairproxy", b"_tcp", b"local")


def whole_instance(number: int) -> bytes:
    """All records of an instance that nobody has heard of before."""
    instance = name(b"%06d" % number, b"_pairproxy", b"_tcp", b"local")
    host = name(b"h%06d" % number, b"local")
    text = b"\x0bid=" + base64.b32encode(number.to_bytes(5, "big")) + b"\x03v=1"
    return packet(
        record(SERVICE_NAME, 12, instance),
        record(instance, 33, struct.pack("!HHH", 0, 0, 40010) + host),
        record(instance, 16, text),
        record(host, 1, socket.inet_aton("127.0.0.1")),
    )


def sender() -> socket.socket:
    """A socket whose packets everybody on loopback hears."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    found.connect(("224.0.0.251", 5353))
    return found


@pytest.mark.slow
def test_a_flood_of_instances_costs_little() -> None:
    """I06: 2,000 instances from one host cost less than a tenth of the twelve seconds they stand for."""

    async def main() -> tuple[float, int]:
        told = Told()
        found = loopback(new_id(), 40001, told)
        async with running(found):
            await until(lambda: found.lives, "it listens")
            before = time.process_time()
            with sender() as rogue:
                for number in range(2000):
                    rogue.send(whole_instance(number))
                    if number % 20 == 19:
                        await asyncio.sleep(0.002)
            ben = new_id()
            async with running(loopback(ben, 40002, [])):
                await until(lambda: from_node(told, ben), "the good node is told all the same")
            return time.process_time() - before, len(found.seen())

    spent_s, shown = run_async(main(), timeout=60.0)
    assert spent_s < 2 * 1.2  # two discoveries run in this process
    assert shown <= MOST_INSTANCES


def test_packets_that_lie_about_their_lengths_have_no_effect() -> None:
    """I07: RDLENGTH 65535, a pointer to itself, 9 KB of text, half a record, and then one in order."""

    async def main() -> None:
        ben, told = new_id(), Told()
        found = loopback(new_id(), 40001, told)
        instance = name(b"liar", b"_pairproxy", b"_tcp", b"local")
        async with running(found):
            await until(lambda: found.lives, "it listens")
            with sender() as rogue:
                for bad in (
                    packet(record(SERVICE_NAME, 12, instance, 65535)),
                    packet(record(b"\xc0\x0c", 12, b"\xc0\x0c")),
                    packet(record(SERVICE_NAME, 12, instance), record(instance, 16, b"\xff" * 8900)),
                    packet(record(SERVICE_NAME, 12, instance))[:-5],
                    b"\x00" * 12,
                    b"",
                    b"\xff" * 1400,
                ):
                    rogue.send(bad)
            async with running(loopback(ben, 40002, [])):
                await until(lambda: from_node(told, ben), "the good node is told")
            assert found.last_error is None

    run_async(main())


def test_another_protocol_is_told_as_one() -> None:
    """I11: v=2 is no hint; who it is and what it speaks is told."""

    async def main() -> None:
        newer, told, outdated = new_id(), Told(), list[tuple[str, str]]()
        found = loopback(new_id(), 40001, told, outdated=lambda *one: outdated.append(one))
        service = AsyncServiceInfo(
            SERVICE,
            f"newer{newer[:8]}.{SERVICE}",
            port=40009,
            properties={"id": newer[:8], "v": "2"},
            server=f"newer{newer[:8]}.local.",
            parsed_addresses=["127.0.0.1"],
        )
        async with running(found), AsyncZeroconf(interfaces=["127.0.0.1"]) as mdns:
            await mdns.async_register_service(service, cooperating_responders=True)
            await until(lambda: (newer[:8], "2") in outdated, "told as outdated")
        assert from_node(told, newer) == []

    run_async(main())


def test_two_nodes_of_one_instance_name_are_both_found() -> None:
    """F25: a name that somebody else has already takes nothing from anybody: the id tells them apart."""

    async def main() -> None:
        anna, ben, told = new_id(), new_id(), Told()
        found = loopback(new_id(), 40001, told)
        a, b = loopback(anna, 40002, []), loopback(ben, 40003, [])
        b._token = a._token
        async with running(found), running(a):
            await until(lambda: from_node(told, anna), "the first is told")
            async with running(b):
                await until(lambda: from_node(told, ben), "the second is told")
            assert a.last_error is b.last_error is None

    run_async(main())


def test_who_hears_nobody_for_long_says_so() -> None:
    """F28: mDNS works and nobody is heard: that is said, since a firewall may be the reason."""

    async def main() -> None:
        clock = ManualClock()
        found = loopback(new_id(), 40001, [], clock=clock, pace=Pace(watch_s=3600.0))
        assert found.problem is None
        clock.time += 700.0
        assert "heard no other node" in (found.problem or "")

    run_async(main())


@pytest.mark.slow
def test_a_life_of_discovery_is_a_handful_of_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget when idle: a burst at the start of each life of five minutes, and silence until the next."""
    packets: list[float] = []
    send = Zeroconf.async_send

    def counted(zeroconf: Zeroconf, out: Any, *others: Any, **named: Any) -> None:
        packets.append(time.monotonic())
        send(zeroconf, out, *others, **named)

    monkeypatch.setattr(Zeroconf, "async_send", counted)

    async def main() -> list[int]:
        counts: list[int] = []
        clock = ManualClock()
        found = loopback(new_id(), 40001, [], clock=clock, wall=clock.now, pace=Pace(watch_s=0.05))
        async with running(found):
            for life, listened_s in ((1, 18.0), (2, 4.0)):  # its questions come after 0, 1, 5 and 14 seconds
                await until(lives_are(found, life), "a life")
                await asyncio.sleep(listened_s)
                counts.append(len(packets))
                packets.clear()
                clock.time += 301.0
        return counts

    counts = run_async(main(), timeout=90.0)
    assert all(3 <= count <= 40 for count in counts), counts  # seven where nobody else asks


@pytest.mark.skipif(sys.platform == "win32", reason="how a port is shared differs")
def test_another_responder_on_this_machine_is_no_hindrance() -> None:
    """One that holds the mDNS port already, as avahi and mDNSResponder do: both go on."""

    async def main() -> None:
        ben, told = new_id(), Told()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            for option in ("SO_REUSEADDR", "SO_REUSEPORT"):
                other.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
            other.bind(("", 5353))
            found = loopback(new_id(), 40001, told)
            async with running(found), running(loopback(ben, 40002, [])):
                await until(lambda: from_node(told, ben), "the other node is told")
            assert found.problem is None

    run_async(main())

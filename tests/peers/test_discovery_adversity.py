"""Discovery without a network, with one that fails, and among announcements that lie."""

import errno
import logging
import os
import socket
import struct

import pytest
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from pairproxy.peers import discovery, own_addresses
from pairproxy.peers.announcement import SERVICE
from pairproxy.peers.discovery import Discovery
from tests.support.discovering import (
    QUICK,
    Told,
    from_node,
    loopback,
    new_id,
    running,
    until,
)
from tests.support.running import run_async


def test_without_a_network_it_goes_on_trying() -> None:
    """No usable interface is no failure of the node: it says so, tries again and stops when told."""

    async def main() -> None:
        tries = 0

        def nothing() -> frozenset[own_addresses.OwnAddress]:
            nonlocal tries
            tries += 1
            return frozenset(
                {
                    own_addresses.OwnAddress("lo", 1, "127.0.0.1"),
                    own_addresses.OwnAddress("docker0", 2, "172.17.0.1"),
                }
            )

        found = Discovery(new_id(), 40001, lambda *hint: None, pace=QUICK, snapshot=nothing)
        async with running(found):
            await until(lambda: tries >= 5, "five tries")
            assert found.last_error is not None
            assert "no network" in found.last_error
            assert found.lives == 0

    run_async(main())


def test_a_failing_mdns_is_tried_until_it_works(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two failures of the sockets are said once, without the text of the exception; the third try works."""
    failures = [OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)), RuntimeError("PACKET BYTES")]

    def failing(interfaces: list[str]) -> AsyncZeroconf:
        if failures:
            raise failures.pop(0)
        return AsyncZeroconf(interfaces=interfaces)

    monkeypatch.setattr(discovery, "AsyncZeroconf", failing)

    async def main() -> None:
        ben = new_id()
        told = Told()
        found = loopback(new_id(), 40001, told)
        async with running(found), running(loopback(ben, 40002, [])):
            await until(lambda: from_node(told, ben), "told after all")
            assert found.last_error is None

    with caplog.at_level(logging.DEBUG, logger="pairproxy"):
        run_async(main())
    assert "Address already in use" in caplog.text
    assert "PACKET BYTES" not in caplog.text


def answer_with_escapes(text: bytes) -> bytes:
    """A packet as no honest responder makes it: the instance is called ESC [2J."""

    def name(*labels: bytes) -> bytes:
        return b"".join(bytes([len(label)]) + label for label in labels) + b"\x00"

    def record(owner: bytes, kind: int, data: bytes) -> bytes:
        return owner + struct.pack("!HHIH", kind, 1, 120, len(data)) + data

    service = name(b"_pairproxy", b"_tcp", b"local")
    instance = name(b"\x1b[2J", b"_pairproxy", b"_tcp", b"local")
    host = name(b"escape", b"local")
    records = (
        record(service, 12, instance)
        + record(instance, 33, struct.pack("!HHH", 0, 0, 40010) + host)
        + record(instance, 16, text)
        + record(host, 1, socket.inet_aton("127.0.0.1"))
    )
    return struct.pack("!6H", 0, 0x8400, 0, 4, 0, 0) + records


def send_to_all(packet: bytes) -> None:
    """Send a packet to everybody who listens for mDNS on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        sender.sendto(packet, ("224.0.0.251", 5353))


def test_hostile_announcements_are_passed_over() -> None:
    """I05, I07: forged records yield no hint and do not keep a good node from being heard."""

    async def main() -> None:
        evil, ben = new_id(), new_id()
        told = Told()
        found = loopback(new_id(), 40001, told)
        text = b"\x0bid=" + evil[:8].encode() + b"\x03v=1"
        forged = [
            (22, text, "ssh"),
            (0, text, "zero"),
            (40009, b"\x05noise", "noise"),
            (40009, b"\xff" * 1200, "long"),
            (40009, b"\x0bid=\xff\xfe\xfd\xfc\xff\xfe\xfd\xfc\x03v=1", "bytes"),
            (40009, text, "anna \u202e"),
        ]
        async with AsyncZeroconf(interfaces=["127.0.0.1"]) as rogue, running(found):
            for number, (port, content, name) in enumerate(forged):
                service = AsyncServiceInfo(
                    SERVICE,
                    f"{name}.{SERVICE}",
                    port=port,
                    properties=content,
                    server=f"rogue{number}.local.",
                    parsed_addresses=["127.0.0.1"],
                )
                await rogue.async_register_service(service, cooperating_responders=True, strict=False)
            await until(lambda: found.lives, "it listens")
            send_to_all(answer_with_escapes(text))
            async with running(loopback(ben, 40002, [])):
                await until(lambda: from_node(told, ben), "the good node is told")
                await until(lambda: from_node(told, evil), "the one well-formed record is told")
        assert {hint[2] for hint in from_node(told, evil)} == {40009}
        assert all(sighting.instance.isprintable() for sighting in found.seen())

    run_async(main())


def test_our_own_id_from_elsewhere_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """I04: another host with our id is ignored, and the log says so once for each address."""
    own = new_id()
    told = Told()
    found = Discovery(own, 11634, lambda *hint: told.append(hint))
    service = AsyncServiceInfo(
        SERVICE,
        f"x.{SERVICE}",
        port=11634,
        properties={"id": own[:8], "v": "1"},
        server="x.local.",
        parsed_addresses=["192.168.7.7"],
    )
    with caplog.at_level(logging.WARNING, logger="pairproxy"):
        found._take(service)
        found._take(service)
    assert told == []
    assert found.heard == 0
    assert caplog.text.count("192.168.7.7") == 1

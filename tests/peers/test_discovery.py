"""Discovery over real multicast on loopback; nothing here leaves the machine."""

import asyncio
import contextlib
import errno
import logging
import os
import platform
import secrets
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable

import psutil
import pytest
from zeroconf import ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from pairproxy.core.models import NodeId
from pairproxy.peers import discovery, links
from pairproxy.peers.announcement import HINT_CHARACTERS, SERVICE
from pairproxy.peers.discovery import Discovery, Pace
from tests.support.running import run_async

QUICK = Pace(watch_s=0.02, retry_s=0.02, longest_retry_s=0.05)
Told = list[tuple[str, str, int, str]]


class ManualClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        """The time it was set to."""
        return self.time


def new_id() -> NodeId:
    """A device id that no other test or process has."""
    return NodeId("".join(secrets.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") for _ in range(52)))


async def until(is_so: Callable[[], object], what: str) -> None:
    """Wait until something is so; the test fails after ten seconds."""
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"Not within 10 s: {what}")


@contextlib.asynccontextmanager
async def running(found: Discovery) -> AsyncIterator[asyncio.Task[None]]:
    """Run it as the daemon does, in a TaskGroup; stop it at the end."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(found.run())
        try:
            yield task
        finally:
            found.stop()


@contextlib.asynccontextmanager
async def observing() -> AsyncIterator[list[tuple[str, ServiceStateChange]]]:
    """What an independent browser on loopback notices: (name, change)."""
    events: list[tuple[str, ServiceStateChange]] = []

    def on_change(zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        events.append((name, state_change))

    mdns = AsyncZeroconf(interfaces=["127.0.0.1"])
    AsyncServiceBrowser(mdns.zeroconf, SERVICE, handlers=[on_change])
    try:
        yield events
    finally:
        await mdns.async_close()


def open_descriptors() -> int:
    """How many file descriptors this process has."""
    return psutil.Process().num_fds()


def name_of(found: Discovery) -> str:
    """The name under which it announces itself."""
    return f"{found._token}.{SERVICE}"


def loopback(own: NodeId, port: int, told: Told, **options: object) -> Discovery:
    """A discovery that stays on this machine and writes down what it tells."""
    options = {"pace": QUICK, **options}
    return Discovery(own, port, lambda *hint: told.append(hint), allow_loopback=True, **options)  # type: ignore[arg-type]


def from_node(told: Told, node: NodeId) -> Told:
    """The hints about one node; other processes may announce themselves on loopback as well."""
    return [hint for hint in told if hint[0] == node[:HINT_CHARACTERS]]


def told_times(told: Told, node: NodeId, times: int) -> Callable[[], bool]:
    """Whether there were so many hints about a node, to be asked again and again."""
    return lambda: len(from_node(told, node)) >= times


def lives_are(found: Discovery, lives: int) -> Callable[[], bool]:
    """Whether mDNS was made so many times, to be asked again and again."""
    return lambda: found.lives == lives


def test_two_nodes_find_each_other() -> None:
    """Each of two nodes is told id, address and port of the other, and not its own."""

    async def main() -> None:
        anna, ben = new_id(), new_id()
        of_anna, of_ben = Told(), Told()
        a, b = loopback(anna, 40001, of_anna), loopback(ben, 40002, of_ben)
        async with running(a), running(b):
            await until(lambda: from_node(of_anna, ben) and from_node(of_ben, anna), "both are told")
            assert from_node(of_anna, ben)[0] == (ben[:8], "127.0.0.1", 40002, "mdns")
            assert from_node(of_ben, anna)[0] == (anna[:8], "127.0.0.1", 40001, "mdns")
            assert ben[:8] in {sighting.node_hint for sighting in a.seen()}
            assert a.heard >= 1
            assert a.last_error is None
        assert from_node(of_anna, anna) == from_node(of_ben, ben) == []

    run_async(main())


def test_the_announcement_says_nothing_about_user_or_machine() -> None:
    """Name and server are random per start, the text is id and protocol, and no more."""

    async def main() -> None:
        node = new_id()
        first, second = loopback(node, 40001, []), loopback(node, 40001, [])
        assert first._token != second._token
        async with running(first), observing() as events:
            await until(lambda: (name_of(first), ServiceStateChange.Added) in events, "announced")
            async with AsyncZeroconf(interfaces=["127.0.0.1"]) as mdns:
                service = AsyncServiceInfo(SERVICE, name_of(first))
                assert await service.async_request(mdns.zeroconf, 3000)
        assert service.text == b"\x0bid=" + node[:8].encode() + b"\x03v=1"
        assert service.server == f"pp-{first._token}.local."
        assert service.port == 40001
        assert service.parsed_addresses() == ["127.0.0.1"]
        said = f"{service.name} {service.server} {service.text!r}".lower()
        assert socket.gethostname().lower() not in said
        assert platform.node().lower() not in said

    run_async(main())


@pytest.mark.skipif(sys.platform != "linux", reason="how sockets are bound for multicast differs")
def test_a_loopback_run_sends_from_loopback_only() -> None:
    """With allow_loopback no socket that sends is bound to any address but 127.0.0.1."""

    async def main() -> None:
        def mdns_sockets() -> list[str]:
            found = psutil.Process().net_connections("udp")
            return [connection.laddr.ip for connection in found if connection.laddr.port == 5353]

        before = mdns_sockets()
        found = loopback(new_id(), 40001, [])
        async with running(found):
            await until(lambda: found.lives, "it lives")
            added = mdns_sockets()
            for address in before:
                added.remove(address)
            assert sorted(added) == ["0.0.0.0", "127.0.0.1"]  # the first only listens

    run_async(main())


def test_stopping_says_goodbye() -> None:
    """After stop(), and after cancellation, others notice at once, and the task is really over."""

    async def main() -> None:
        async with observing() as events:
            stopped, cancelled = loopback(new_id(), 40001, []), loopback(new_id(), 40002, [])
            async with running(stopped):
                await until(lambda: (name_of(stopped), ServiceStateChange.Added) in events, "announced")
            await until(lambda: (name_of(stopped), ServiceStateChange.Removed) in events, "goodbye on stop")

            task = asyncio.create_task(cancelled.run())
            await until(lambda: (name_of(cancelled), ServiceStateChange.Added) in events, "announced")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(
                lambda: (name_of(cancelled), ServiceStateChange.Removed) in events, "goodbye on cancel"
            )

    run_async(main())


def test_a_removal_takes_nothing_back_and_a_return_is_told_again() -> None:
    """I02: a node whose record was removed is still shown; when it is seen again it is told again."""

    async def main() -> None:
        anna, ben, clock = new_id(), new_id(), ManualClock()
        told = Told()
        a = loopback(anna, 40001, told, clock=clock)
        async with running(a), observing() as events:
            first = loopback(ben, 40002, [])
            async with running(first):
                await until(lambda: from_node(told, ben), "told")
            await until(lambda: (name_of(first), ServiceStateChange.Removed) in events, "goodbye")
            assert ben[:8] in {sighting.node_hint for sighting in a.seen()}
            clock.time += 5.0
            async with running(loopback(ben, 40002, [])):
                await until(told_times(told, ben, 2), "told again")

    run_async(main())


def test_a_new_life_is_unseen_by_others_and_asks_everybody_anew() -> None:
    """refresh() makes mDNS anew without a goodbye or a new name, and known addresses are told again."""

    async def main() -> None:
        anna, ben, clock = new_id(), new_id(), ManualClock()
        told = Told()
        a = loopback(anna, 40001, told, clock=clock)
        async with observing() as events, running(a), running(loopback(ben, 40002, [])):
            await until(lambda: from_node(told, ben), "told")
            await until(lambda: (name_of(a), ServiceStateChange.Added) in events, "announced")
            for life in (2, 3):
                clock.time += 5.0
                a.refresh()
                await until(told_times(told, ben, life), "told again")
                assert a.lives == life
            of_a = [change for name, change in events if name == name_of(a)]
            assert ServiceStateChange.Removed not in of_a
            assert of_a.count(ServiceStateChange.Added) == 1

    run_async(main())


def test_sleep_and_time_make_a_new_life() -> None:
    """A jump of the wall clock, and refresh_s, each make mDNS anew."""

    async def main() -> None:
        clock, offset = ManualClock(), [0.0]
        found = loopback(new_id(), 40001, [], clock=clock, wall=lambda: clock.time + offset[0])
        async with running(found):
            await until(lives_are(found, 1), "first life")
            offset[0] += 60.0
            await until(lives_are(found, 2), "a life after sleep")
            clock.time += 301.0
            await until(lives_are(found, 3), "a life after refresh_s")

    run_async(main())


@pytest.mark.skipif(sys.platform == "win32", reason="counts file descriptors")
def test_lives_leave_no_sockets() -> None:
    """Four lives later there are as many open descriptors as after the first."""

    async def main() -> None:
        found = loopback(new_id(), 40001, [])
        async with running(found):
            await until(lives_are(found, 1), "first life")
            await asyncio.to_thread(int)  # the thread pool itself opens nothing later
            before = open_descriptors()
            for life in range(2, 6):
                found.refresh()
                await until(lives_are(found, life), "the next life")
            await until(lambda: open_descriptors() <= before, "descriptors are closed")

    run_async(main(), timeout=40.0)


def test_without_a_network_it_goes_on_trying() -> None:
    """No usable interface is no failure of the node: it says so, tries again and stops when told."""

    async def main() -> None:
        tries = 0

        def nothing() -> frozenset[links.Link]:
            nonlocal tries
            tries += 1
            return frozenset({links.Link("lo", 1, "127.0.0.1"), links.Link("docker0", 2, "172.17.0.1")})

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

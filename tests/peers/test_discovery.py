"""Discovery over real multicast on loopback; nothing here leaves the machine."""

import asyncio
import platform
import socket
import sys

import psutil
import pytest
from zeroconf import ServiceStateChange
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from pairproxy.peers.announcement import SERVICE
from tests.support.discovering import (
    ManualClock,
    Told,
    from_node,
    lives_are,
    loopback,
    name_of,
    new_id,
    observing,
    open_descriptors,
    running,
    told_times,
    until,
)
from tests.support.running import run_async


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


def test_cancelling_says_goodbye() -> None:
    """Others notice at once, and the task is really over."""

    async def main() -> None:
        async with observing() as events:
            found = loopback(new_id(), 40002, [])
            task = asyncio.create_task(found.run())
            await until(lambda: (name_of(found), ServiceStateChange.Added) in events, "announced")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: (name_of(found), ServiceStateChange.Removed) in events, "goodbye")

    run_async(main())


def test_a_removal_takes_no_peer_away_and_a_return_is_told_again() -> None:
    """I02: the record of a peer was removed: that is told, the peer stays; seen again, it is told again."""

    async def main() -> None:
        anna, ben, clock = new_id(), new_id(), ManualClock()
        told, goodbyes = Told(), list[str]()
        paired = {ben[:8]}
        a = loopback(anna, 40001, told, clock=clock, is_paired=paired.__contains__, goodbye=goodbyes.append)
        async with running(a):
            async with running(loopback(ben, 40002, [])):
                await until(lambda: from_node(told, ben), "told")
            await until(lambda: ben[:8] in goodbyes, "goodbye")
            assert ben[:8] in {sighting.node_hint for sighting in a.seen()}
            clock.time += 5.0
            async with running(loopback(ben, 40002, [])):
                await until(told_times(told, ben, 2), "told again")

    run_async(main())


def test_a_stranger_that_says_goodbye_is_no_longer_shown() -> None:
    """Daemons that ended are not listed for ten minutes as seen and not paired."""

    async def main() -> None:
        ben, goodbyes = new_id(), list[str]()
        a = loopback(new_id(), 40001, [], goodbye=goodbyes.append)
        async with running(a):
            async with running(loopback(ben, 40002, [])):
                await until(lambda: ben[:8] in {one.node_hint for one in a.seen()}, "seen")
            await until(lambda: ben[:8] in goodbyes, "goodbye")
            assert ben[:8] not in {one.node_hint for one in a.seen()}

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

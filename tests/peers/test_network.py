"""Sleep and change of the network are noticed, whichever clock shows them."""

import asyncio

import pytest

from pairproxy.peers.network import NetworkWatch
from pairproxy.peers.own_addresses import OwnAddress
from tests.support.discovering import ManualClock
from tests.support.fake_engine import eventually
from tests.support.running import run_async

HOME = frozenset({OwnAddress("eth0", 2, "192.168.1.7", 24)})
WORK = frozenset({OwnAddress("eth0", 2, "10.0.0.7", 8)})


class World:
    """Clocks and interfaces that a test moves, and what was told of them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.offset = 0.0
        self.links = HOME
        self.told: list[frozenset[OwnAddress]] = []
        self.wakes = 0
        self.looks = 0

    def snapshot(self) -> frozenset[OwnAddress]:
        self.looks += 1
        return self.links

    def wake(self) -> None:
        self.wakes += 1

    async def looked(self) -> None:
        """Wait until it has looked twice more: once may have been under way."""
        seen = self.looks
        await eventually(lambda: self.looks >= seen + 3)

    def watch(self) -> NetworkWatch:
        return NetworkWatch(
            self.told.append,
            self.wake,
            watch_s=0.005,
            clock=self.clock,
            wall=lambda: self.clock.time + self.offset,
            snapshot=self.snapshot,
        )


@pytest.mark.parametrize("what", ["change", "sleep", "stop"])
def test_it_tells_once_what_makes_connections_doubtful(what: str) -> None:
    """F26, F29: another address, a wall clock that ran ahead, a process that was stopped: each once."""

    async def scene() -> list[frozenset[OwnAddress]]:
        world = World()
        running = asyncio.create_task(world.watch().run())
        await eventually(lambda: world.told == [HOME])
        await world.looked()
        if what == "change":
            world.links = WORK
        elif what == "sleep":
            world.offset += 60.0
        else:
            world.clock.time += 60.0
        await eventually(lambda: len(world.told) == 2)
        await world.looked()
        running.cancel()
        await asyncio.wait([running])
        assert world.wakes == (what != "change")
        return world.told

    assert run_async(scene()) == [HOME, WORK if what == "change" else HOME]


def test_a_container_that_starts_is_no_change() -> None:
    """Its bridge and pipe are no way to a peer: nothing is dialled because of it."""

    async def scene() -> list[frozenset[OwnAddress]]:
        world = World()
        running = asyncio.create_task(world.watch().run())
        await eventually(lambda: world.told == [HOME])
        world.links = HOME | {
            OwnAddress("veth12ab", 9, "169.254.1.1", 16),
            OwnAddress("docker0", 8, "172.17.0.1", 16),
        }
        await world.looked()
        running.cancel()
        await asyncio.wait([running])
        return world.told

    assert run_async(scene()) == [HOME]

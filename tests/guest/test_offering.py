"""What a node offers to its peers, by a made-up machine and a made-up clock."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from pairproxy.api.offering import DrainAnswer, DrainWish
from pairproxy.config import PeerSettings
from pairproxy.core.errors import BadRequest, StoreError
from pairproxy.core.models import NodeId
from pairproxy.guest.drained import read
from pairproxy.guest.offering import Offering
from pairproxy.guest.presence import Reading
from tests.support.running import run_async

QUIET, BUSY = Reading(processor=0.0, free_bytes=10**10), Reading(processor=0.9, free_bytes=10**10)
FASTER = 200.0  # times as fast as ours goes the clock of the node: two seconds of use are over in 10 ms
IDLE = PeerSettings(share="idle", idle_after_s=4.0)
DEADLINE_S = 10.0


class Laptop:
    """A machine whose battery and use a test sets; counts what it is asked."""

    def __init__(self, battery: bool | None = None, reading: Reading = QUIET) -> None:
        self.battery = battery
        self.reading = reading
        self.reads = 0
        self.alone: list[bool] = []
        self.rests = 0

    def on_battery(self) -> bool | None:
        return self.battery

    def read(self, settings: PeerSettings, *, is_alone: bool) -> Reading:
        self.reads += 1
        self.alone.append(is_alone)
        return self.reading

    def unknown(self) -> tuple[str, ...]:
        return ("the use of its graphics card",)

    def rest(self) -> None:
        self.rests += 1


class Node:
    """An offering with all that it is given, and what it told."""

    def __init__(self, home: Path, settings: PeerSettings, machine: Laptop | None = None) -> None:
        self.machine = machine or Laptop()
        self.told: list[str] = []
        self.work = (0, 0)
        self.unix = 1_000_000.0
        now = asyncio.get_running_loop().time
        self.offering = Offering(
            NodeId("own"), settings, home, self.machine, self.told.append, lambda: self.work,
            lambda: FASTER * now(), lambda: self.unix, look_s=0.005, battery_s=0.005,
        )  # fmt: skip

    async def wish(self, want: str, for_s: float | None = None) -> DrainAnswer:
        """POST /drain."""
        return await self.offering.wished(msgspec.json.encode({"want": want, "for_s": for_s}))

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for it."""
        async with asyncio.timeout(DEADLINE_S):
            while not is_so():  # noqa: ASYNC110 no event tells it
                await asyncio.sleep(0.002)

    async def until_withheld(self, word: str) -> None:
        """Wait until slots are withheld for this reason; "": offered."""
        await self.until(lambda: self.offering.status().withheld == word)


@asynccontextmanager
async def serving(node: Node) -> AsyncIterator[Node]:
    """It runs, as in a daemon."""
    await node.offering.begin()
    task = asyncio.create_task(node.offering.run())
    try:
        yield node
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task


def test_by_default_slots_are_offered_and_nothing_is_read(tmp_path: Path) -> None:
    """A desktop that always shares is asked once whether it has a battery, and no more."""

    async def check() -> None:
        node = Node(tmp_path, PeerSettings())
        async with serving(node):
            await asyncio.sleep(0.05)  # several looks, if there were any
        assert (node.told, node.machine.reads) == ([], 0)
        assert node.offering.status().withheld == ""

    run_async(check())


def test_never_offers_nothing_from_the_first_moment_on(tmp_path: Path) -> None:
    """It is told before anybody can ask."""

    async def check() -> None:
        node = Node(tmp_path, PeerSettings(share="never"))
        await node.offering.begin()
        assert node.told == ["never"]
        assert "peers.share" in node.offering.status().why

    run_async(check())


def test_an_idle_machine_offers_and_a_used_one_does_not(tmp_path: Path) -> None:
    """There and back, each told once; what cannot be read is said."""

    async def check() -> None:
        async with serving(Node(tmp_path, IDLE)) as node:
            assert node.told == ["unknown"]
            await node.until_withheld("")
            assert node.offering.status().unknown == ("the use of its graphics card",)
            node.machine.reading = BUSY
            await node.until_withheld("owner")
            assert "90% of its processor" in node.offering.status().why
            assert node.offering.status().since_unix == node.unix
            assert node.told == ["unknown", "", "owner"]

    run_async(check())


def test_our_own_work_is_known_to_the_look(tmp_path: Path) -> None:
    """Only where nothing of ours ran at this look and the last can all use be somebody else's."""

    async def check() -> None:
        node = Node(tmp_path, IDLE)
        node.work = (1, 1)
        async with serving(node):
            await node.until(lambda: len(node.machine.alone) > 3)
            assert not any(node.machine.alone)
            node.work = (0, 0)
            await node.until(lambda: any(node.machine.alone))
        assert node.machine.rests == 1

    run_async(check())


@pytest.mark.parametrize("share", ["always", "idle"])
def test_a_laptop_offers_nothing_on_its_battery(tmp_path: Path, share: str) -> None:
    """Until it is plugged in; meanwhile its use is not read either."""

    async def check() -> None:
        settings = PeerSettings(share=share, idle_after_s=4.0)  # type: ignore[arg-type]
        async with serving(Node(tmp_path, settings, Laptop(battery=True))) as node:
            assert node.told == ["battery"]
            assert node.machine.reads == 0
            node.machine.battery = False
            await node.until_withheld("")
            node.machine.battery = True
            await node.until_withheld("battery")

    run_async(check())


def test_a_person_may_offer_the_battery(tmp_path: Path) -> None:
    """By a setting, also while it runs."""

    async def check() -> None:
        async with serving(Node(tmp_path, PeerSettings(), Laptop(battery=True))) as node:
            node.offering.follow_settings(PeerSettings(on_battery=True))
            assert node.told == ["battery", ""]

    run_async(check())


def test_settings_count_at_once(tmp_path: Path) -> None:
    """never, idle, always."""

    async def check() -> None:
        async with serving(Node(tmp_path, PeerSettings())) as node:
            node.offering.follow_settings(PeerSettings(share="never"))
            assert node.offering.status().withheld == "never"
            node.offering.follow_settings(IDLE)
            assert node.offering.status().withheld == "unknown"
            await node.until_withheld("")
            node.offering.follow_settings(PeerSettings(share="always"))
            await node.until(lambda: node.machine.rests == 1)
            assert node.offering.status().unknown == ()

    run_async(check())


def test_a_drain_counts_at_once_and_over_a_restart(tmp_path: Path) -> None:
    """Since the first time that it was wanted; resume ends it, and the file is gone."""

    async def check() -> None:
        async with serving(Node(tmp_path, PeerSettings())) as node:
            node.work = (3, 2)
            answer = await node.wish("drain")
            assert (answer.node, answer.offer.withheld, answer.offer.guests) == ("own", "drained", 2)
            node.unix += 60.0
            assert (await node.wish("drain")).offer.since_unix == 1_000_000.0
        again = Node(tmp_path, PeerSettings())
        again.unix += 500.0
        async with serving(again):
            assert again.told == ["drained"]
            assert again.offering.status().since_unix == 1_000_000.0
            assert (await again.wish("look")).offer.withheld == "drained"
            assert (await again.wish("resume")).offer.withheld == ""
        assert not list(tmp_path.iterdir())

    run_async(check())


def test_a_drain_for_a_time_ends_by_itself(tmp_path: Path) -> None:
    """By the wall clock, as a person means it; also where it ran out while the daemon was off."""

    async def check() -> None:
        async with serving(Node(tmp_path, PeerSettings())) as node:
            answer = await node.wish("drain", 7200.0)
            assert answer.offer.until_unix == 1_007_200.0
            assert "It is drained until 1970-01-1" in answer.offer.why
            await node.wish("drain", 0.05)
            node.unix += 1.0
            await node.until_withheld("")
            assert not list(tmp_path.iterdir())
            await node.wish("drain", 10.0)
        later = Node(tmp_path, PeerSettings())
        later.unix += 3600.0
        async with serving(later):
            await later.until_withheld("")

    run_async(check())


def test_resume_says_what_else_withholds_the_slots(tmp_path: Path) -> None:
    """A person who resumes on battery would wonder otherwise."""

    async def check() -> None:
        async with serving(Node(tmp_path, PeerSettings(), Laptop(battery=True))) as node:
            await node.wish("drain")
            offer = (await node.wish("resume")).offer
            assert (offer.withheld, offer.until_unix) == ("battery", None)
            assert "battery" in offer.why

    run_async(check())


@pytest.mark.parametrize(
    "body",
    [b"", b"drain", b'{"want":"stop"}', b'{"want":"drain","for_s":0}', b'{"want":"drain","for_s":-5}',
     b'{"want":"drain","for_s":1e12}', b'{"want":"drain","for":"2h"}', b"[" * 60_000, b"\xff"],
)  # fmt: skip
def test_a_wish_that_is_none_is_refused(tmp_path: Path, body: bytes) -> None:
    """And changes nothing."""

    async def check() -> None:
        node = Node(tmp_path, PeerSettings())
        with pytest.raises(BadRequest):
            await node.offering.wished(body)
        assert node.told == []

    run_async(check())


def test_a_home_that_cannot_be_written_drains_all_the_same(tmp_path: Path) -> None:
    """A person wants it now; that it will not outlast a restart is told."""

    async def check() -> None:
        node = Node(tmp_path / "gone", PeerSettings())
        with pytest.raises(StoreError, match="not be after a restart"):
            await node.wish("drain")
        assert node.told == ["drained"]

    run_async(check())


def test_the_wish_of_the_command_is_what_is_read(tmp_path: Path) -> None:
    """As client and daemon encode it."""
    wish = msgspec.json.encode(DrainWish("drain", 60.0))
    assert json.loads(wish) == {"want": "drain", "for_s": 60.0}


def test_what_is_kept_is_the_newest_wish(tmp_path: Path) -> None:
    """Several at once, as when a drain ends while somebody drains anew: the file says what holds."""

    async def check() -> None:
        node = Node(tmp_path, PeerSettings())
        async with serving(node):
            for _ in range(10):
                await asyncio.gather(*(node.wish(want) for want in 3 * ("resume", "drain")))
                assert read(tmp_path, 0.0) is not None
                await asyncio.gather(*(node.wish(want) for want in 3 * ("drain", "resume")))
                assert read(tmp_path, 0.0) is None

    run_async(check())

"""What the daemon keeps of where its peers were: bounded, private, and never a reason to fail."""

import asyncio
import logging
import stat
import sys
from pathlib import Path

import msgspec
import pytest

from pairproxy.core.models import NodeId
from pairproxy.peers import remembered
from pairproxy.peers.addresses import Address
from pairproxy.peers.remembered import FILE, AddressMemory
from pairproxy.security.private_files import write_private
from pairproxy.security.trust import MOST_PEERS
from tests.support.fake_engine import eventually
from tests.support.running import run_async

B, C = NodeId("B"), NodeId("C")
LAN = Address("10.0.0.7", 11634, "mdns")
V6 = Address("fe80::7%eth0", 4000, "inbound")


def memory(home: Path, *peers: NodeId, today: int = 20_000) -> AddressMemory:
    """What is known at the start of a life, on this day."""
    home.chmod(0o700)
    found = AddressMemory(home, lambda: today)
    found.load(peers)
    return found


def test_what_proved_itself_is_known_in_the_next_life(tmp_path: Path) -> None:
    """F28: the last success first, with the way it was found, in a file of the owner alone."""
    first = memory(tmp_path, B)
    first.keep(B, [V6, LAN])
    first.save()
    again = memory(tmp_path, B, today=20_001)
    assert again.of(B) == [
        Address("fe80::7%eth0", 4000, "remembered"),
        Address("10.0.0.7", 11634, "remembered"),
    ]
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    again.keep(B, again.of(B)[1:] + again.of(B)[:1])
    again.save()
    kept = msgspec.json.decode((tmp_path / FILE).read_bytes())["peers"]["B"]
    assert kept == [
        {"address": "10.0.0.7:11634", "source": "mdns", "day": 20_001},
        {"address": "[fe80::7%eth0]:4000", "source": "inbound", "day": 20_000},
    ]


def test_who_is_no_peer_is_not_kept(tmp_path: Path) -> None:
    """Forgetting a peer forgets where it was, also if that happened while the daemon was off."""
    first = memory(tmp_path, B, C)
    first.keep(B, [LAN])
    first.keep(C, [V6])
    first.forget(C)
    first.save()
    assert b'"C"' not in (tmp_path / FILE).read_bytes()
    assert memory(tmp_path, C).of(B) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"peers":{"B":[{"address":1}]}}',
        b"x" * (remembered.MOST_BYTES + 1),
    ],
    ids=["empty", "half", "bytes", "deep", "types", "long"],
)
def test_a_damaged_file_is_said_once_and_starts_empty(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is locked out by it; the next success writes it anew."""
    (tmp_path / FILE).write_bytes(content)
    (tmp_path / FILE).chmod(0o600)
    with caplog.at_level(logging.WARNING, logger="pairproxy"):
        found = memory(tmp_path, B)
    assert found.of(B) == []
    assert len(caplog.records) == 1
    found.keep(B, [LAN])
    found.save()
    assert len(memory(tmp_path, B).of(B)) == 1


def test_addresses_that_are_none_are_left_out(tmp_path: Path) -> None:
    """What somebody wrote into the file is not dialled unless it is an address."""
    kept = [
        {"address": text, "source": "x", "day": 1} for text in ("http://x/", "10.0.0.7:99999", "10.0.0.8:1")
    ]
    (tmp_path / FILE).write_bytes(msgspec.json.encode({"peers": {"B": kept}}))
    (tmp_path / FILE).chmod(0o600)
    assert memory(tmp_path, B).of(B) == [Address("10.0.0.8", 1, "remembered")]


def test_it_is_bounded(tmp_path: Path) -> None:
    """Peers and addresses of each; ten thousand of both leave a file that is read again."""
    found = memory(tmp_path)
    for number in range(MOST_PEERS + 100):
        found.keep(NodeId(f"{number:052}"), [Address(f"{'x' * 200}{n}", n, "mdns") for n in range(1, 100)])
    found.save()
    assert (tmp_path / FILE).stat().st_size < 2 * remembered.MOST_BYTES
    assert len(found._kept) == MOST_PEERS


def test_it_is_written_on_change_only_and_not_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that flaps a hundred times is two writes: the first, and the last when it stops."""
    monkeypatch.setattr(remembered, "SAVE_S", 3600.0)
    writes: list[bytes] = []

    def counted(path: Path, content: bytes) -> None:
        writes.append(content)
        write_private(path, content)

    monkeypatch.setattr(remembered, "write_private", counted)

    async def scene() -> None:
        found = memory(tmp_path, B)
        running = asyncio.create_task(found.run())
        found.keep(B, [LAN])
        await eventually(lambda: len(writes) == 1)
        found.keep(B, [LAN])
        for number in range(100):
            found.keep(B, [LAN, V6] if number % 2 else [V6, LAN])
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])

    run_async(scene())
    assert len(writes) == 2
    assert memory(tmp_path, B).of(B)[0].host == "10.0.0.7"


def test_a_full_disk_is_said_once_and_written_when_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F35: the daemon goes on, and the file is there as soon as it can be."""
    monkeypatch.setattr(remembered, "SAVE_S", 0.01)
    room = tmp_path / "full"

    async def scene() -> None:
        found = AddressMemory(room, lambda: 1)
        running = asyncio.create_task(found.run())
        found.keep(B, [LAN])
        await eventually(lambda: len(caplog.records) == 1)
        room.mkdir(mode=0o700)
        await eventually((room / FILE).exists)
        running.cancel()
        await asyncio.wait([running])

    with caplog.at_level(logging.WARNING, logger="pairproxy"):
        run_async(scene())
    assert len(caplog.records) == 1

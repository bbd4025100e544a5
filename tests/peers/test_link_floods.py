"""A link whose peer, or whose neighbours on the network, send without pause."""

import asyncio
import dataclasses

import msgspec
import pytest

from pairproxy.core.events import NodeReported
from pairproxy.peers.addresses import Address
from tests.core.told import B
from tests.core.told import document as told_document
from tests.peers.test_link_paths import at, linked, talks
from tests.support.engine_scripts import chunk, chunked_head
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.running import run_async


@pytest.mark.slow
def test_a_flood_of_doubts_and_addresses_makes_it_dial_no_faster() -> None:
    """I12: an update every 10 ms, of new addresses and goodbyes, is one round in two seconds."""

    async def scene() -> int:
        async with FakeEngine(talks) as peer, linked(at(peer.port), lost_s=60.0) as (link, _):
            await eventually(lambda: link.is_up)
            before = len(peer.connections)
            for number in range(100):
                link.addresses.add(Address(f"192.0.2.{number}", 9, "mdns"))
                link.doubt()
                await asyncio.sleep(0.01)
            return len(peer.connections) - before

    assert run_async(scene()) <= 2


@pytest.mark.slow
def test_a_peer_that_sends_documents_without_pause_stays_and_is_followed_slowly() -> None:
    """I14: the newest counts, most are passed over, and the loop has time for everybody else."""
    sent = 0

    async def floods(request: ParsedRequest, connection: EngineConnection) -> None:
        nonlocal sent
        document = told_document(B)
        await connection.send(chunked_head())
        while True:
            lines = []
            for _ in range(50):
                sent += 1
                lines.append(msgspec.json.encode(dataclasses.replace(document, sequence=sent)) + b"\n")
            await connection.send(chunk(b"".join(lines)))
            await asyncio.sleep(0)

    async def scene() -> tuple[int, int, int]:
        async with FakeEngine(floods) as peer, linked(at(peer.port), lost_s=60.0) as (link, told):
            await eventually(lambda: sent > 10_000, 50.0)
            assert link.is_up
            last = told[-1]
            assert isinstance(last, NodeReported)
            return sent, len(told), last.document.sequence

    written, heard, newest = run_async(scene(), timeout=60.0)
    assert 10 < heard < written / 2
    assert newest > heard

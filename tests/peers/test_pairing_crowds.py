"""The port that waits for a code, among connections that nobody means."""

import asyncio
import sys
from pathlib import Path

import pytest

from pairproxy.peers.pairing_host import MOST_CONNECTIONS
from pairproxy.security.pairing import Spake
from tests.support.pairing_table import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two machines that do not know each other."""
    return Table(tmp_path)


def test_who_says_nothing_keeps_nobody_waiting(table: Table) -> None:
    """H14: more silent connections than may be open have neither the turn nor all the room."""

    async def act(table: Table) -> None:
        silent = [await table.raw() for _ in range(MOST_CONNECTIONS + 10)]
        assert await table.join() == "anna-ws"
        await (await table.port.paired()).close()
        for one in silent:
            await one.close()

    table.run(act)
    assert (table.failures, table.told) == ([], [])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is no address of this machine")
def test_a_flood_of_connections_ends_only_its_own(table: Table) -> None:
    """H14: a machine that has not said anything yet outlives a hundred newer ones of another address."""

    async def act(table: Table) -> None:
        raw = await table.raw()
        flood = [
            await asyncio.open_connection("127.0.0.1", table.port.port, local_addr=("127.0.0.2", 0))
            for _ in range(MOST_CONNECTIONS + 40)
        ]
        async with asyncio.timeout(10.0):
            assert await flood[0][0].read(1) == b""  # it gave way
        raw.send(b"pairproxy/1 " + Spake(b"a guess", is_host=False).start())
        assert (await raw.hear() or b"").startswith(b"E")
        await raw.close()
        for _, writer in flood:
            writer.close()

    table.run(act)

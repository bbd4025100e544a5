"""Two real daemons, and more streams at once than a peer lets strangers begin or one of them keep."""

from pathlib import Path

import pytest

from pairproxy.config import Limits
from tests.support.asking import Asker
from tests.support.daemons import Daemons, settings

STREAMS = 64
ROUNDS = 3  # the first finds no connection, the next ones those that are idle
SLOTS = 2 * STREAMS


@pytest.mark.slow
def test_a_burst_through_a_peer_loses_nothing(tmp_path: Path) -> None:
    """64 streams at once: each is answered whole, at its first attempt, by the peer."""
    limits = Limits()
    assert limits.unauthenticated_connections < limits.peer_connections < STREAMS
    with Daemons(tmp_path) as daemons:
        daemons.home("A", settings(paced={"model": "other:1b"}))
        daemons.home("B", settings(slots=SLOTS, paced={"decode": 5000.0}))
        daemons.pair("A", "B")
        a, b = daemons.start("A", "B")
        daemons.until_connected()
        asker = Asker(a.port)
        for _ in range(ROUNDS):
            futures = [asker.start(f"task {number}", tokens=20) for number in range(STREAMS)]
            replies = [future.result() for future in futures]
            assert {(got.status, got.is_whole, got.node, got.attempts) for got in replies} == {
                (200, True, b.id, 1)
            }

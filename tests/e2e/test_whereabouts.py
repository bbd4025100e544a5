"""Where real daemons look for each other, and what they know of one that stopped."""

import json
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemons import Daemons, settings, until
from tests.support.free_ports import free_port


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


def at_port(port: int, *, discovery: bool) -> str:
    """Settings with a peer port that stays, with mDNS or without."""
    return settings(peers={"listen": f"127.0.0.1:{port}", "loopback": True, "discovery": discovery})


@pytest.mark.slow
def test_a_clean_stop_is_known_at_once_and_peers_are_found_again_without_multicast(daemons: Daemons) -> None:
    """F28: where a peer proved its key is kept in a private file, and is enough for the next life."""
    ports = {name: free_port() for name in "AB"}
    homes = {name: daemons.home(name, at_port(port, discovery=True)) for name, port in ports.items()}
    daemons.pair("A", "B")
    a, b = daemons.start("A", "B")
    daemons.until_connected()
    b_id = b.id
    b.send(signal.SIGTERM)
    until(lambda: not a.view_of(b_id).is_up, "the stop is known")
    assert a.view_of(b_id).problem == "it was stopped"
    assert b.wait() == 0
    assert a.stop() == 0
    for home in homes.values():
        file = home / "addresses.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kept = json.loads((homes["A"] / "addresses.json").read_text())["peers"]
    assert kept[b_id][0]["address"] == f"127.0.0.1:{ports['B']}"

    for name, port in ports.items():
        daemons.home(name, at_port(port, discovery=False))
    again = daemons.start("A", "B")
    daemons.until_connected(*again)
    assert again[0].view_of(b_id).found_by == "remembered"

"""Machines are paired over the LAN by two commands and eight digits, and parted by one."""

import time
from pathlib import Path

import pytest

from tests.lan.conftest import Figure, Network, Told
from tests.support.daemons import until
from tests.support.lan_bursts import Burst, at_rest, until_gone, until_used
from tests.support.lan_nodes import LanCommand, LanDaemons, LanNode, lan_settings

HEARTBEAT_S = 0.3


def strangers(network: Network) -> tuple[LanDaemons, LanNode, LanNode]:
    """Two machines with running daemons that know nobody."""
    daemons = network("anna", "ben")
    for name in ("anna", "ben"):
        daemons.home(name, lan_settings(heartbeat_s=HEARTBEAT_S))
    anna, ben = daemons.begin("anna", "ben")
    return daemons, anna, ben


def peers_of(node: LanNode) -> int:
    """How many machines are paired with it, by its files."""
    return len(list((node.home / "peers").glob("*.json")))


@pytest.mark.slow
@pytest.mark.parametrize("has_multicast", [True, False], ids=["by mDNS", "by --at, without multicast"])
def test_two_commands_pair_two_machines(
    network: Network, told: Told, tmp_path: Path, has_multicast: bool
) -> None:
    """H01: while both daemons run; a moment later each works for the other."""
    daemons, anna, ben = strangers(network)
    if not has_multicast:
        daemons.lan.block_multicast()
    pair = LanCommand(anna, tmp_path / "pair", "pair")
    code = pair.until(r"Pairing code: (\d{4}-\d{4})")
    began_at = time.monotonic()
    at = () if has_multicast else ("--at", anna.here.address)
    join = LanCommand(ben, tmp_path / "join", "join", code, *at)
    assert join.ended() == 0, join.said
    assert pair.ended() == 0, pair.said
    assert "The connection works in both directions." in join.said
    assert "The connection works in both directions." in pair.said
    paired_s = time.monotonic() - began_at
    daemons.until_connected()
    until_used(anna, ben)
    seen = Burst(ben, "burst").send(4).seen()
    what = "paired by code" if has_multicast else "paired by code and address"
    told(Figure(f"{what} (noticed: done)", seen.asked, seen.whole, seen.broken, seen.lost, paired_s))
    assert seen.whole == 4


@pytest.mark.slow
def test_a_wrong_code_pairs_nobody(network: Network, tmp_path: Path) -> None:
    """H02: both screens say so and nothing is stored; the right code is still good."""
    _, anna, ben = strangers(network)
    pair = LanCommand(anna, tmp_path / "pair", "pair")
    code = pair.until(r"Pairing code: (\d{4}-\d{4})")
    wrong = f"{code[:-1]}{(int(code[-1]) + 1) % 10}"
    join = LanCommand(ben, tmp_path / "wrong", "join", wrong, "--at", anna.here.address)
    assert join.ended() == 1
    join.until("the code is wrong")
    pair.until("A wrong code was tried")
    assert (peers_of(anna), peers_of(ben)) == (0, 0)
    right = LanCommand(ben, tmp_path / "right", "join", code)
    assert (right.ended(), pair.ended()) == (0, 0), right.said + pair.said
    assert (peers_of(anna), peers_of(ben)) == (1, 1)


@pytest.mark.slow
def test_who_is_forgotten_while_away_stays_out(network: Network, told: Told, tmp_path: Path) -> None:
    """F41: at once, though ben is off; when he is back he is told that he was revoked, and gets nothing."""
    daemons = network("anna", "ben")
    for name in ("anna", "ben"):
        daemons.home(name, lan_settings(heartbeat_s=HEARTBEAT_S))
    daemons.pair("anna", "ben")
    anna, ben = daemons.begin("anna", "ben")
    daemons.until_connected()
    ben.here.cut()
    until_gone(anna, ben, time.monotonic())
    forget = LanCommand(anna, tmp_path / "forget", "forget", "ben")
    assert forget.ended() == 0, forget.said
    assert [node.name for node in anna.status().nodes] == ["anna"]
    began_at = time.monotonic()
    daemons.lan.heal()
    until(lambda: "no longer" in (ben.view_of(anna).problem or ""), "ben is told")
    told_s = time.monotonic() - began_at
    assert not ben.view_of(anna).is_up
    theirs = Burst(ben, "theirs").send(3)
    seen = theirs.seen()
    told(Figure("F41 forgotten while away (noticed: told)", 3, seen.whole, seen.broken, seen.lost, told_s))
    assert seen.whole == 3
    assert theirs.nodes() == {ben.id}
    assert [node.name for node in anna.status().nodes] == ["anna"]
    at_rest(anna, ben)

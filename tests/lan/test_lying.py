"""Somebody on the LAN lies about paired nodes: nothing of a prompt reaches them, and nobody loses a peer."""

import time
import uuid
from pathlib import Path

import pytest

from pairproxy.peers.announcement import HINT_CHARACTERS
from pairproxy.security.identity import load_or_create
from tests.lan.conftest import Figure, Network, Told
from tests.support.daemons import until
from tests.support.lan_bursts import Burst, at_rest, until_gone
from tests.support.lan_nodes import PEER_PORT, LanDaemons, LanNode, lan_settings
from tests.support.lan_rogue import Rogue, Sniffer

HEARTBEAT_S = 0.3


def pair_and_rogue(network: Network) -> tuple[LanDaemons, LanNode, LanNode]:
    """Two paired nodes that are connected; a third host, eve, runs nothing of ours."""
    daemons = network("anna", "ben", "eve")
    for name in ("anna", "ben"):
        daemons.home(name, lan_settings(heartbeat_s=HEARTBEAT_S))
    daemons.pair("anna", "ben")
    anna, ben = daemons.begin("anna", "ben")
    daemons.until_connected()
    return daemons, anna, ben


@pytest.mark.slow
def test_no_prompt_reaches_who_announces_a_paired_node(network: Network, told: Told, tmp_path: Path) -> None:
    """F3 F23 I01: ben is away and eve is he, she says: she is tried, told nothing, and ben is found again."""
    daemons, anna, ben = pair_and_rogue(network)
    eve = daemons.lan["eve"]
    canary = f"CANARY{uuid.uuid4().hex}"
    eve_home = tmp_path / "eve"
    eve_home.mkdir(mode=0o700)
    with Rogue(eve) as rogue, Sniffer(eve) as plain, Sniffer(eve, load_or_create(eve_home)) as secured:
        ben.here.cut()
        noticed_s = until_gone(anna, ben, time.monotonic())

        def is_tried() -> bool:
            for sniffer in (plain, secured):
                rogue.announce(ben.id[:HINT_CHARACTERS], sniffer.port)
            time.sleep(0.1)  # a pace for packets, not a wait
            return plain.connections > 0 and secured.connections > 0

        until(is_tried, "anna tries the addresses of the lie")
        seen = Burst(anna, "burst").send(4, words=canary).seen()
        assert not anna.view_of(ben).is_up
        daemons.lan.heal()
        until(lambda: anna.view_of(ben).is_up, "ben is found in spite of the lie")
        assert anna.view_of(ben).address == f"{ben.here.address}:{PEER_PORT}"
        told(Figure("F3 F23 rogue at a peer's name", 4, seen.whole, seen.broken, seen.lost, noticed_s))
        assert seen.whole == 4
    for sniffer in (plain, secured):
        assert canary.encode() not in sniffer.raw
        assert b"HTTP" not in sniffer.raw
    assert not secured.read, "nothing was said to the wrong key"


@pytest.mark.slow
def test_forged_goodbyes_and_addresses_change_nothing(network: Network, told: Told) -> None:
    """F22 F23 I02 I10: ben is said to leave and to have moved, all the time, and works on for anna."""
    daemons, anna, ben = pair_and_rogue(network)
    eve = daemons.lan["eve"]
    with Rogue(eve) as rogue, Sniffer(eve) as sniffer:
        instances = rogue.services(2)
        instance = next(name for name, hint in instances.items() if ben.id.startswith(hint))
        burst = Burst(anna, "burst").send(2, tokens=100)
        burst.until_runs_on(ben)
        for _ in range(10):
            rogue.say_goodbye_for(instance)
            rogue.move(instance, sniffer.port)
            time.sleep(0.1)  # a pace for packets, not a wait
            assert anna.view_of(ben).is_up
        seen = burst.seen()
        told(Figure("F22 F23 forged goodbye and address", 2, seen.whole, seen.broken, seen.lost, None))
        assert seen.whole == 2
        at_rest(anna, ben)
        assert b"HTTP" not in sniffer.raw
    assert len(anna.status().nodes) == 2

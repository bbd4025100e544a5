"""Where peers are: found by real multicast, and again whatever becomes of addresses, cards and networks."""

import re
import socket
import time
from pathlib import Path

import pytest

from tests.lan.conftest import FAST_S, Figure, Network, Told, couple, prepared
from tests.support.lan_bursts import Burst, at_rest, until_gone, until_used
from tests.support.lan_nodes import PEER_PORT, LanDaemons, LanNode, lan_settings

MDNS = "udp dport 5353"
BUDGET_PER_S = 5.0  # packets for each ordered pair of nodes: a document, its acknowledgement, room for TLS
BUDGET_S = 2.0
MDNS_BUDGET = (
    24  # packets to others in BUDGET_S: a browser asks 0, 1, 5 and 14 s after its start, then no more
)
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def test_three_machines_meet_and_share_and_lose_nothing(network: Network, told: Told) -> None:
    """Found by multicast at their LAN addresses; one is cut off in mid-burst, every request is answered."""
    _, (anna, ben, cara) = couple(network, "anna", "ben", "cara")
    for node in (anna, ben, cara):
        for other in {anna.id: anna, ben.id: ben, cara.id: cara}.values():
            if other is not node:
                view = node.view_of(other)
                assert (view.is_up, view.address) == (True, f"{other.here.address}:{PEER_PORT}")
    burst = Burst(anna, "burst").send(4, tokens=50, stream=False)
    burst.until_runs_on(ben, cara, has_first_byte=False)
    began_at = time.monotonic()
    ben.here.cut()
    noticed_s = until_gone(anna, ben, began_at)
    seen = burst.seen()
    told(Figure("three machines, one is cut off", seen.asked, seen.whole, seen.broken, seen.lost, noticed_s))
    assert seen.whole == 4


@pytest.mark.slow
def test_an_address_that_every_machine_has_leads_nobody_astray(network: Network) -> None:
    """F24: each has a bridge for containers of the same address and says so; dialled, it is oneself."""
    daemons = prepared(network)
    for host in daemons.lan.hosts:
        host.ip("link add bridge7 type bridge", "addr add 172.17.0.1/16 dev bridge7", "link set bridge7 up")
    anna, ben = daemons.begin("anna", "ben")
    daemons.until_connected()
    assert anna.view_of(ben).address == f"{ben.here.address}:{PEER_PORT}"
    assert ben.view_of(anna).address == f"{anna.here.address}:{PEER_PORT}"
    until_used(anna, ben)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["remembered", "static"])
def test_without_multicast_peers_are_found(network: Network, told: Told, how: str) -> None:
    """F28: a VPN that carries unicast only: by the addresses of the last life, or by one in the settings."""
    static = ["10.77.0.1", f"10.77.0.2:{PEER_PORT}"] if how == "static" else []
    text = lan_settings(heartbeat_s=FAST_S, peers={"static": static})
    daemons = prepared(network, text=text)
    if how == "remembered":
        nodes = daemons.begin("anna", "ben")
        daemons.until_connected()
        assert [node.stop() for node in nodes] == [0, 0]
        daemons.nodes.clear()
    daemons.lan.block_multicast()
    anna, ben = daemons.begin("anna", "ben")
    began_at = time.monotonic()
    daemons.until_connected()
    seen = Burst(anna, "burst").send(4).seen()
    found_s = time.monotonic() - began_at
    told(Figure(f"F28 no multicast, {how}", seen.asked, seen.whole, seen.broken, seen.lost, found_s))
    assert seen.whole == 4
    assert {anna.view_of(ben).found_by, ben.view_of(anna).found_by} <= {how, "inbound"}


@pytest.mark.slow
def test_a_lost_announcement_is_made_up_for(network: Network, told: Told) -> None:
    """F21: nobody heard ben's first words; asking again and being called is enough for both to meet."""
    daemons = prepared(network)
    daemons.begin("anna")
    daemons.lan.block_multicast()
    anna, ben = daemons.nodes[0], daemons.begin("ben")[0]
    assert isinstance(anna, LanNode)
    time.sleep(1.2)  # this is how long the network eats what it should carry
    assert not anna.view_of(ben).is_up
    daemons.lan.filter()
    began_at = time.monotonic()
    daemons.until_connected()
    told(Figure("lost announcement (noticed: met)", 0, 0, 0, 0, time.monotonic() - began_at))


@pytest.mark.slow
def test_link_local_addresses_are_enough(network: Network, told: Told) -> None:
    """F30: two machines with a cable and nothing else, no IPv4 at all: they meet and share."""
    _, (anna, ben) = couple(network, has_ipv4=False)
    assert str(anna.view_of(ben).address).startswith("[fe80::")
    burst = Burst(anna, "burst").send(4)
    burst.until_runs_on(ben)
    seen = burst.seen()
    told(Figure("F30 link-local IPv6 only", seen.asked, seen.whole, seen.broken, seen.lost, None))
    assert seen.whole == 4


@pytest.mark.slow
def test_wrong_clocks_lock_nobody_out(network: Network, told: Told) -> None:
    """F20: a clock twenty years behind and one twenty years ahead find, trust and use each other."""
    if FAKETIME is None:
        pytest.skip("a wrong clock needs the package faketime")
    daemons = prepared(network)
    anna, ben = (
        daemons.launch(name, LD_PRELOAD=str(FAKETIME), FAKETIME=shift, DONT_FAKE_MONOTONIC="1")
        for name, shift in {"anna": "-20y", "ben": "+20y"}.items()
    )
    daemons.until_connected()
    seen = Burst(anna, "burst").send(4).seen()
    told(Figure("F20 clocks 40 years apart", seen.asked, seen.whole, seen.broken, seen.lost, None))
    assert seen.whole == 4
    until_used(anna, ben)
    until_used(ben, anna)
    years = [int(re.findall(r"^(\d{4})-", node.log, re.MULTILINE)[0]) for node in (anna, ben)]
    assert years[1] - years[0] >= 39, "their clocks were wrong"


@pytest.mark.slow
def test_an_idle_network_is_nearly_silent(network: Network, told: Told) -> None:
    """At rest there are a few questions of mDNS and no more packets of heartbeats than were budgeted."""
    text = lan_settings(heartbeat_s=1.0)
    daemons, nodes = couple(network, "anna", "ben", "cara", text=text)
    at_rest(*nodes)
    time.sleep(1.0)  # the last of the start: records are announced a second time after one second
    daemons.lan.filter(f"{MDNS} counter")
    before, began_at = daemons.lan.forwarded(), time.monotonic()
    time.sleep(BUDGET_S)  # this is the measurement
    per_s = (daemons.lan.forwarded() - before) / (time.monotonic() - began_at)
    multicast = counted(daemons)
    told(Figure(f"idle: {per_s:.1f} packets/s of three nodes, mDNS {multicast}", 0, 0, 0, 0, None))
    assert per_s <= 6 * BUDGET_PER_S
    assert multicast <= MDNS_BUDGET
    with daemons.lan["anna"].new_socket(kind=socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("224.0.0.251", 5353))
    assert counted(daemons) >= multicast + 2, "it counts, once for each other host"


def counted(daemons: LanDaemons) -> int:
    """What the counter of the switch's filter says, in packets."""
    table = daemons.lan.switch.run("nft", "list", "table", "bridge", "lan")
    return int(table.partition("counter packets ")[2].split()[0])

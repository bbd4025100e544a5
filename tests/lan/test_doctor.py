"""What doctor finds on a network only: no multicast, a firewall, a peer without a way back."""

import sys
from pathlib import Path

import msgspec
import pytest

from pairproxy.api.diagnosis import Diagnosis
from tests.lan.conftest import Network, couple, prepared
from tests.support.daemons import until
from tests.support.lan_nodes import PEER_PORT, LanNode

PEERS_IN = f"tcp dport {PEER_PORT}"
SETTLED_S = 10.0  # a daemon's age from which doctor misses peers

# What is planted -> what doctor must call it; docs/doctor.md has these, too. Each has a test below.
ON_A_LAN = {
    "multicast does not pass": "multicast-deaf",
    "the packet filter keeps the peer port shut": "firewall-shut",
    "the peer's own packet filter lets nothing out to this machine": "peer-one-way",
}


def examined(node: LanNode) -> Diagnosis:
    """What doctor says in the host of a node."""
    command = f'{sys.executable} -m pairproxy doctor --json --home "$0" || [ $? = 1 ]'
    said = node.here.run(
        "sh", "-c", f"cd {Path(__file__).parents[2]} && HOME=/nowhere {command}", str(node.home)
    )
    return msgspec.json.decode(said, type=Diagnosis)


def found(node: LanNode) -> list[str]:
    """The kinds of what it finds."""
    return [one.id for one in examined(node).findings]


@pytest.mark.slow
def test_a_healthy_lan_and_one_without_multicast(network: Network) -> None:
    """Silent while all is well, the packet filter read; then mDNS is stopped between the hosts."""
    daemons, (anna, _) = couple(network)
    healthy = examined(anna)
    assert healthy.findings == ()
    assert "multicast" in healthy.looked_at
    daemons.lan.block_multicast()
    assert found(anna) == ["multicast-deaf"]


@pytest.mark.slow
def test_a_packet_filter_that_keeps_the_peer_port_shut(network: Network) -> None:
    """It is read there, and named as the cause: that the peer does not come through is not told twice."""
    daemons = prepared(network)
    daemons.lan["anna"].filter_in(f"{PEERS_IN} ct state new drop", f"{PEERS_IN} drop")
    anna, ben = daemons.begin("anna", "ben")
    until(lambda: anna.view_of(ben).is_up, "anna hears ben")
    until(lambda: anna.status().uptime_s >= SETTLED_S, "the daemon has been there for a while")
    assert anna.view_of(ben).hears_us is False
    assert found(anna) == ["firewall-shut"]


@pytest.mark.slow
def test_a_peer_that_cannot_come_back(network: Network) -> None:
    """Ben's machine lets nothing of his out to anna's peer port: anna sees that he does not listen."""
    daemons = prepared(network)
    rules = f"type filter hook output priority 0\n{PEERS_IN} drop"
    rules = f"table inet out {{\nchain out {{\n{rules}\n}}\n}}\n"
    daemons.lan["ben"].run("nft", "-f", "-", text=rules)
    anna, ben = daemons.begin("anna", "ben")
    until(lambda: anna.view_of(ben).is_up, "anna hears ben")
    until(lambda: anna.status().uptime_s >= SETTLED_S, "the daemon has been there for a while")
    assert found(anna) == ["peer-one-way"]

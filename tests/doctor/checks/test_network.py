import pytest

from pairproxy.config import PeerSettings, Settings
from pairproxy.doctor.facts import Card, Firewall
from tests.support.diagnosed import OTHER, found, peer, status, told

DEAF = Card("eth0", "10.0.0.1", "10.0.0.0/24")


def test_a_peer_that_does_not_answer_multicast() -> None:
    """On an interface of whose network it has an address; who is elsewhere, or away, is not missed."""
    assert "laptop answers on eth0 (10.0.0.1)" in told(cards=(DEAF,))
    assert found(cards=(Card("tun0", "10.9.0.1", "10.9.0.0/24"),)) == []
    assert found(cards=(DEAF,), status=status(peer(address="[fe80::1%eth0]:11634"))) == []
    assert found(cards=(DEAF,), status=status(peer(address=None))) == []


def test_multicast_that_nobody_wants_is_not_missed() -> None:
    """peers.discovery = false; and where the packet filter is why, that is told."""
    assert found(cards=(DEAF,), settings=Settings(peers=PeerSettings(discovery=False))) == []
    assert found(cards=(DEAF,), firewall=Firewall("ufw", (("udp", 5353),))) == ["firewall-shut"]


def test_a_card_on_which_nothing_can_be_sent() -> None:
    """On macOS it is a permission, and a problem."""
    assert found(cards=(Card("eth0", "10.0.0.1", "10.0.0.0/24", problem="No route to host"),)) == [
        "multicast-refused"
    ]
    apple = Card(
        "en0", "10.0.0.1", "10.0.0.0/24", problem="macOS does not let this program use the local network"
    )
    assert found(cards=(apple,)) == ["local-network-refused"]
    assert "Privacy & Security" in told(cards=(apple,))


def test_discovery_that_fails_matters_where_nobody_is_found() -> None:
    """With peers there it does no harm; a machine without peers misses nobody."""
    failing = "mDNS heard no other node for 5 minutes."
    assert found(status=status(discovery_problem=failing)) == []
    gone = status(peer(is_up=False, hears_us=False), discovery_problem=failing)
    assert found(status=gone) == ["discovery-fails", "peer-away"]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("ufw", "`sudo ufw allow 11634/tcp`"),
        ("firewalld", "--add-port=11634/tcp"),
        ("nftables", "tcp dport 11634 accept"),
        ("the macOS firewall", "Switch off"),
    ],
)
def test_a_port_that_is_kept_shut(name: str, command: str) -> None:
    """Each packet filter has a command of its own; the address of the peer is not needed for it."""
    assert command in told(firewall=Firewall(name, (("tcp", 11634),)))
    assert OTHER not in told(firewall=Firewall(name, (("tcp", 11634),)))

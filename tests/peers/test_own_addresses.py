import errno

import pytest

from pairproxy.peers.own_addresses import (
    MOST_INTERFACES,
    SLEPT_S,
    OwnAddress,
    Watch,
    advertised,
    listening,
    networks,
    shares_network,
    snapshot,
    usable,
    why_mdns_failed,
)

LAN = OwnAddress("eth0", 2, "192.168.1.7")
LAN_V6 = OwnAddress("eth0", 2, "2001:db8::7")
LAN_LOCAL_V6 = OwnAddress("eth0", 2, "fe80::7")
CABLE = OwnAddress("eth1", 3, "169.254.7.7")


def test_this_machine_has_a_loopback_interface() -> None:
    """The snapshot of a real machine holds 127.0.0.1, and nothing of loopback is usable."""
    links = snapshot()
    assert "127.0.0.1" in {link.address for link in links}
    assert not any(link.address.startswith("127.") or link.address == "::1" for link in usable(links))


@pytest.mark.parametrize(
    "name",
    [
        "lo",
        "lo0",
        "docker0",
        "br-1a2b3c4d5e6f",
        "veth12ab",
        "virbr0",
        "vmnet8",
        "vboxnet0",
        "cni0",
        "utun3",
        "awdl0",
        "llw0",
        "bridge100",
        "vEthernet (WSL)",
        "vEthernet (WSL (Hyper-V firewall))",
        "vEthernet (Default Switch)",
        "VirtualBox Host-Only Ethernet Adapter",
        "VMware Virtual Ethernet Adapter for VMnet1",
        "Software Loopback Interface 1",
    ],
)
def test_virtual_interfaces_are_left_out(name: str) -> None:
    """Bridges of containers and virtual machines are no way to another machine."""
    assert usable({OwnAddress(name, 9, "172.17.0.1"), LAN}) == {LAN}


@pytest.mark.parametrize(
    "name",
    ["eth0", "en0", "wlan0", "enp3s0", "br0", "bond0", "wg0", "bridge0", "Intel(R) Ethernet", "local0"],
)
def test_real_interfaces_stay(name: str) -> None:
    """Wires, radios, bonds, bridges of the LAN and tunnels of a VPN are ways to another machine."""
    link = OwnAddress(name, 4, "10.0.0.4")
    assert usable({link}) == {link}


def test_mdns_listens_by_address_and_by_number() -> None:
    """IPv4 is joined by address, IPv6 by the interface's number and once each; the count is bounded."""
    assert listening({LAN, LAN_V6, LAN_LOCAL_V6}) == ["192.168.1.7", 2]
    assert listening({CABLE, LAN}) == ["192.168.1.7", "169.254.7.7"]
    many = {OwnAddress(f"eth{number}", number, f"10.0.{number}.1") for number in range(40)}
    assert len(listening(many)) == MOST_INTERFACES
    assert listening(set()) == []


def test_link_local_addresses_are_announced_only_for_want_of_others() -> None:
    """A routable address silences the link-local ones; two machines on a bare cable still meet."""
    assert advertised({LAN, LAN_V6, LAN_LOCAL_V6, CABLE}) == ["192.168.1.7", "2001:db8::7"]
    assert advertised({CABLE, LAN_LOCAL_V6}) == ["169.254.7.7", "fe80::7"]


HERE = frozenset({LAN})
ELSEWHERE = frozenset({OwnAddress("eth0", 2, "10.0.0.7")})
REPLUGGED = frozenset({OwnAddress("eth0", 5, "192.168.1.7")})


def watched(*rounds: frozenset[OwnAddress]) -> list[bool]:
    """What a watch begun with HERE says, asked every two seconds."""
    watch = Watch(HERE, now=100.0, wall=5000.0, refresh_s=300.0)
    return [
        watch.is_stale(links, 100.0 + 2 * number, 5000.0 + 2 * number)
        for number, links in enumerate(rounds, start=1)
    ]


def test_a_change_must_stand_for_one_round() -> None:
    """A new address, or the same one on a replugged interface, counts when it is seen twice."""
    assert watched(HERE, ELSEWHERE, ELSEWHERE) == [False, False, True]
    assert watched(REPLUGGED, REPLUGGED) == [False, True]


def test_an_interface_that_came_back_counts_as_changed() -> None:
    """Links that are as at the start count as changed if they were gone meanwhile."""
    assert watched(frozenset(), HERE, HERE) == [False, False, True]


def test_a_flapping_interface_waits_until_it_is_quiet() -> None:
    """While every round differs from the last, nothing is made anew."""
    assert watched(ELSEWHERE, HERE, ELSEWHERE, HERE, ELSEWHERE, ELSEWHERE) == [False] * 5 + [True]


def test_it_ends_when_time_is_up() -> None:
    """Without any change it is over after refresh_s."""
    watch = Watch(HERE, now=0.0, wall=0.0, refresh_s=300.0)
    assert [watch.is_stale(HERE, now, now) for now in (2.0, 299.0, 300.0)] == [False, False, True]


def test_sleep_ends_it() -> None:
    """A wall clock that moved against the monotonic one, either way, means sleep or a new time: over."""
    for jump in (SLEPT_S + 1, -SLEPT_S - 1):
        watch = Watch(HERE, now=0.0, wall=5000.0, refresh_s=300.0)
        assert watch.is_stale(HERE, 2.0, 5002.0) is False
        assert watch.is_stale(HERE, 4.0, 5004.0 + jump) is True


@pytest.mark.parametrize(
    ("host", "is_shared"),
    [
        ("192.168.1.200", True),
        ("192.168.2.7", False),
        ("2001:db8::99", True),
        ("2001:db9::99", False),
        ("fe80::99%2", False),
        ("169.254.7.8", False),
        ("172.17.0.1", False),
        ("ben-ws", False),
        ("", False),
    ],
)
def test_an_address_on_a_network_of_ours_is_told_from_others(host: str, is_shared: bool) -> None:
    """OwnAddress-local networks and those of containers exist on many machines: they are no common ground."""
    here = {
        OwnAddress("eth0", 2, "192.168.1.7", 24),
        OwnAddress("eth0", 2, "2001:db8::7", 64),
        OwnAddress("eth0", 2, "fe80::7", 64),
        OwnAddress("eth1", 3, "169.254.7.7", 16),
        OwnAddress("docker0", 4, "172.17.0.1", 16),
        OwnAddress("odd0", 5, "10.0.0.1", 99),
        LAN,
    }
    assert shares_network(networks(here), host) is is_shared


def test_mdns_failures_are_said_without_a_word_of_a_packet() -> None:
    """What kind it was, wherever it came from, and that it is no reason to worry."""
    group = ExceptionGroup("PACKET", [OSError(errno.EADDRINUSE, "Address already in use")])
    assert "Address already in use" in why_mdns_failed(group)
    assert "PACKET" not in why_mdns_failed(RuntimeError("PACKET"))
    assert "no network" in why_mdns_failed(OSError(errno.ENETDOWN, "x"))

"""This machine's own addresses, by the interfaces on which nodes can meet, and when they changed.

Names and filters of interfaces are for Linux, macOS and Windows; only Linux has been tried.
"""

import errno
import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple

import ifaddr

LOOPBACK = "127.0.0.1"
SLEPT_S = 10.0  # the wall clock moved so much against the monotonic one, which stands still during sleep
MOST_INTERFACES = 16  # Linux lets a socket join 20 groups, and joins beyond that fail in silence
MOST_ADVERTISED = 16  # addresses; keeps the announcement in one packet

# Bridges and pipes of containers and virtual machines, and what carries no multicast of the LAN: their
# addresses exist on many machines at once, and dialling them reaches oneself.
_VIRTUAL = re.compile(
    r"lo\d*$|docker|br-[0-9a-f]{6,}|veth|virbr|vmnet|vboxnet|cni|flannel|cali|lxc|lxdbr|podman|tailscale|zt"
    r"|utun|awdl|llw|anpi|bridge1\d\d$|vEthernet \((WSL|Default Switch)|.*Loopback|.*VirtualBox|.*VMware",
    re.IGNORECASE,
)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class OwnAddress(NamedTuple):
    """One address of one interface. ``number`` is the kernel's index; ``address`` has no zone.

    ``prefix`` is the length of its network's prefix in bits; -1: not known.
    """

    name: str
    number: int
    address: str
    prefix: int = -1


def snapshot() -> frozenset[OwnAddress]:
    """Every address of this machine. Takes milliseconds and blocks: call it in a thread."""
    found = set()
    for adapter in ifaddr.get_adapters():
        for ip in adapter.ips:
            address = ip.ip if isinstance(ip.ip, str) else ip.ip[0]
            # Windows calls an adapter by a number; its description says what it is.
            name = adapter.nice_name if adapter.name.startswith("{") else adapter.name
            found.add(OwnAddress(name, adapter.index or 0, address.partition("%")[0], ip.network_prefix))
    return frozenset(found)


def usable(addresses: Iterable[OwnAddress]) -> frozenset[OwnAddress]:
    """Those at which another machine may be met."""
    return frozenset(
        one
        for one in addresses
        if not _VIRTUAL.match(one.name) and not ipaddress.ip_address(one.address).is_loopback
    )


def listening(addresses: Iterable[OwnAddress]) -> list[str | int]:
    """Where to join mDNS: IPv4 addresses, and interface numbers for IPv6. Link-local IPv4 last; bounded."""
    ordered = sorted(addresses, key=lambda one: (_is_v6(one), _is_link_local(one), one))
    # By number: the same link-local IPv6 address may stand on several interfaces.
    places = dict.fromkeys(one.number if _is_v6(one) else one.address for one in ordered)
    return list(places)[:MOST_INTERFACES]


def advertised(addresses: Iterable[OwnAddress]) -> list[str]:
    """The addresses to announce; link-local ones only if there are no others. Bounded."""
    ordered = sorted(addresses, key=lambda one: (_is_v6(one), one))
    routable = [one.address for one in ordered if not _is_link_local(one)]
    return list(dict.fromkeys(routable or [one.address for one in ordered]))[:MOST_ADVERTISED]


def networks(addresses: Iterable[OwnAddress]) -> tuple[Network, ...]:
    """The networks on which this machine meets others; link-local ones are no common ground."""
    found = {
        ipaddress.ip_network(f"{one.address}/{one.prefix}", strict=False)
        for one in usable(addresses)
        if 0 < one.prefix <= (128 if _is_v6(one) else 32) and not _is_link_local(one)
    }
    return tuple(found)


def shares_network(ours: Iterable[Network], host: str) -> bool:
    """Whether ``host`` is an address on one of our networks; a name is not."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address.version == network.version and address in network for network in ours)


def why_mdns_failed(error: BaseException) -> str:
    """Why mDNS failed, without a word of a packet."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.errno in {errno.ENETDOWN, errno.ENODEV, errno.EADDRNOTAVAIL}:
        return "There is no network to look for peers on; those with known addresses are still tried."
    reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return f"Looking for peers by mDNS failed ({reason}); those with known addresses are still tried."


class Watch:
    """Says when what was set up on some interfaces must be set up anew."""

    def __init__(self, here: frozenset[OwnAddress], now: float, wall: float, refresh_s: float) -> None:
        """``here``: the addresses at the start. ``now`` and ``wall`` are seconds of the two clocks."""
        self._here = self._before = here
        self._end = now + refresh_s
        self._drift = wall - now
        self._is_changed = False

    def is_stale(self, here: frozenset[OwnAddress], now: float, wall: float) -> bool:
        """Whether time is up, the machine slept, or the addresses changed and are quiet again.

        Asked every few seconds. What is as it was at the start counts as changed if it was not so
        meanwhile: an interface that comes back under its old address is deaf for what was set up before.
        """
        self._is_changed = self._is_changed or here != self._here
        is_quiet, self._before = here == self._before, here
        return now >= self._end or abs(wall - now - self._drift) > SLEPT_S or (self._is_changed and is_quiet)


def _is_v6(one: OwnAddress) -> bool:
    return ":" in one.address


def _is_link_local(one: OwnAddress) -> bool:
    return ipaddress.ip_address(one.address).is_link_local

"""What an mDNS announcement is worth: a few addresses to try, after everything odd was thrown away.

Every byte of it may come from anybody on the link. Nothing here decides whom to believe or who is there:
an address is a hint, and behind it the peer must prove its key. Pure: values in, values out.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pairproxy.core.documents import PROTOCOL
from pairproxy.security.peer_record import printable

SERVICE = "_pairproxy._tcp.local."
SPOKEN = str(PROTOCOL)
HINT_CHARACTERS = 8  # of the device id: tells machines apart, says nothing to strangers
MOST_INSTANCES = 256  # remembered; a flood of names must cost memory and time of a known size
MOST_ADDRESSES = 16  # taken from one announcement, and per node within PAUSE_S
PAUSE_S = 2.0  # between two hints of one address of one node
FORGET_S = 600.0  # two rounds of asking anew without a sign: no longer shown

_TXT_BYTES = 512  # ours has 16
LOWEST_PORT = 1024  # nodes have no privileged port; no packet makes us call on ssh or mail
_HINT = re.compile(r"[A-Z2-7]{8}")
_VERSION = re.compile(r"[0-9]{1,4}")
_NOWHERE = tuple(map(ipaddress.ip_network, ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3")))
_CLOUD_METADATA = ipaddress.ip_address("169.254.169.254")  # it tells secrets; no machine of a LAN
_V6_UNICAST = tuple(map(ipaddress.ip_network, ("2000::/3", "fc00::/7", "fe80::/10")))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Announcement:
    """One service record as it came: instance name, raw TXT, port, addresses (with zones)."""

    instance: str
    text: bytes
    port: int | None
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads: hint and port of this node, every address it has, and whether it lives on loopback alone."""

    own_hint: str
    own_port: int
    own_addresses: frozenset[str] = frozenset()
    allow_loopback: bool = False


@dataclass(frozen=True, slots=True)
class Sighting:
    """A node that announced itself, paired or not. ``addresses`` may be dialled, ``instance`` printed."""

    node_hint: str
    protocol: str
    instance: str
    addresses: tuple[tuple[str, int], ...]
    is_own: bool = False

    @property
    def speaks_ours(self) -> bool:
        """Whether it speaks the protocol between nodes as we do; if not, it (or we) must be updated."""
        return self.protocol == SPOKEN


def read(announcement: Announcement, reader: Reader) -> Sighting | None:
    """What can be used of an announcement; None if it is not one of pairproxy's or no address is usable.

    Addresses that lead to this machine, to nowhere or to many are left out, link-local ones come last. With
    ``allow_loopback`` only loopback is left, so that a demo stays on its machine.
    """
    values = txt_values(announcement.text)
    node_hint, protocol = values.get("id", ""), values.get("v", "")
    port = announcement.port or 0
    if not _HINT.fullmatch(node_hint) or not _VERSION.fullmatch(protocol) or not LOWEST_PORT <= port <= 65535:
        return None
    found = (dialable(text, port, reader) for text in announcement.addresses[: 4 * MOST_ADDRESSES])
    usable = sorted((address for address in found if address), key=lambda address: address.is_link_local)
    hosts = list(dict.fromkeys(map(str, usable)))[:MOST_ADDRESSES]
    if not hosts:
        return None
    instance = _shown(announcement.instance)
    addresses = tuple((host, port) for host in hosts)
    return Sighting(node_hint, protocol, instance, addresses, is_own=node_hint == reader.own_hint)


@dataclass(slots=True)
class Sightings:
    """What was seen lately, and which addresses were told. Bounded; the oldest unpaired goes first."""

    is_paired: Callable[[str], bool]
    _seen: dict[str, tuple[float, Sighting]] = field(default_factory=dict)
    _told: dict[str, dict[tuple[str, int], float]] = field(default_factory=dict)

    def note(self, sighting: Sighting, now: float) -> tuple[tuple[str, int], ...]:
        """Remember a sighting; returns its addresses that are to be told, in order. ``now`` in seconds."""
        self._seen.pop(sighting.instance, None)
        self._seen[sighting.instance] = (now, sighting)
        if len(self._seen) > MOST_INSTANCES:
            del self._seen[self._dispensable(self._seen, lambda instance: self._seen[instance][1].node_hint)]
        if not sighting.speaks_ours:
            return ()
        told = self._told_lately(sighting.node_hint, now)
        fresh = [address for address in sighting.addresses if address not in told][
            : MOST_ADDRESSES - len(told)
        ]
        told.update(dict.fromkeys(fresh, now))
        return tuple(fresh)

    def lately(self, now: float) -> tuple[Sighting, ...]:
        """Who announced itself within FORGET_S, oldest first."""
        return tuple(sighting for at, sighting in self._seen.values() if now - at < FORGET_S)

    def of(self, instance: str) -> Sighting | None:
        """What was last seen under the full name of an instance."""
        return self._seen.get(_shown(instance), (0.0, None))[1]

    def forget(self, sighting: Sighting) -> None:
        """It said goodbye."""
        self._seen.pop(sighting.instance, None)

    def is_shown_again(self, sighting: Sighting) -> bool:
        """Whether its node was seen under another name, too, as after a restart."""
        return any(
            one.node_hint == sighting.node_hint and one.instance != sighting.instance
            for _, one in self._seen.values()
        )

    def _told_lately(self, node_hint: str, now: float) -> dict[tuple[str, int], float]:
        old = self._told.pop(node_hint, {})
        self._told[node_hint] = told = {address: at for address, at in old.items() if now - at < PAUSE_S}
        if len(self._told) > MOST_INSTANCES:
            del self._told[self._dispensable(self._told, lambda hint: hint)]
        return told

    def _dispensable(self, table: Mapping[str, object], hint_of: Callable[[str], str]) -> str:
        unpaired = (key for key in table if not self.is_paired(hint_of(key)))
        return next(unpaired, next(iter(table)))


def _shown(instance: str) -> str:
    return printable(instance.removesuffix(f".{SERVICE}"))


def txt_values(text: bytes) -> dict[str, str]:
    """The key=value strings of a TXT record; the first of equal keys counts, what is malformed does not."""
    values: dict[str, str] = {}
    if len(text) > _TXT_BYTES:
        return values
    place = 0
    while place < len(text):
        entry = text[place + 1 : place + 1 + text[place]]
        place += 1 + text[place]
        key, separator, value = entry.partition(b"=")
        if separator and key.isascii() and value.isascii():
            values.setdefault(key.decode("ascii").lower(), value.decode("ascii"))
    return values


def dialable(text: str, port: int, reader: Reader) -> Address | None:
    """The address, if a packet may make this machine call there: not itself, nowhere, or many."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    zone = ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        else:
            zone = address.scope_id or ""
            address = ipaddress.IPv6Address(address.packed)
    if str(address) in reader.own_addresses and (port == reader.own_port or not reader.allow_loopback):
        return None
    if reader.allow_loopback:
        return address if address.is_loopback else None
    if isinstance(address, ipaddress.IPv4Address):
        is_nowhere = address == _CLOUD_METADATA or any(address in network for network in _NOWHERE)
        return None if is_nowhere else address
    return _dialable_v6(address, zone)


def _dialable_v6(address: ipaddress.IPv6Address, zone: str) -> Address | None:
    if not any(address in network for network in _V6_UNICAST) or address.sixtofour or address.teredo:
        return None
    if not address.is_link_local:
        return address
    # Without its zone a link-local address leads nowhere.
    return ipaddress.IPv6Address(f"{address}%{zone}") if zone else None

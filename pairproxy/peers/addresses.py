"""Where one peer may be: every address that somebody named, the one that worked last first.

Addresses are hints from mDNS, pairing, the settings, memory and the peer's own calls; only
the pinned certificate is believed. Pure but for the event that wakes the link.
"""

import asyncio
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

from pairproxy.core.errors import ConfigError

MAX_ADDRESSES = 16  # a peer with more interfaces than this does not exist; forged hints are bounded so
MAX_STATIC = 64  # addresses in the settings: each may be any peer's, and is dialled for all of them
STATIC, INBOUND, MDNS, REMEMBERED, PAIRING = "static", "inbound", "mdns", "remembered", "pairing"
DEFAULT_PORT = 11634  # of peers.listen: so that an address alone is enough

_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?", re.ASCII)

SharesNetwork = Callable[[str], bool]
"""Whether a host is on a network that this machine is on."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a peer may be, and who said so (mdns, static, remembered, inbound, pairing)."""

    host: str
    port: int
    source: str

    @property
    def place(self) -> tuple[str, int]:
        """Host and port: two sources may name one place."""
        return self.host, self.port

    def __str__(self) -> str:
        return joined(self.host, self.port)


class PeerAddresses:
    """The addresses of one peer. The endpoint of its Upstream.

    In the order of ``dialled``: those at which it proved its key, the last one first; those on a network
    shared with this machine; others; link-local ones; and last those where another key was found.
    """

    def __init__(self, shares_network: SharesNetwork = lambda host: False) -> None:
        self._shares_network = shares_network
        self._proved: list[Address] = []  # the last success first
        self._hinted: list[Address] = []  # the newest first
        self._static: list[Address] = []
        self._denied: set[tuple[str, int]] = set()
        self.news = asyncio.Event()

    def address(self, path: str) -> tuple[str, int]:
        """The best address; ``path`` does not matter."""
        best = self.best
        return best.place if best is not None else ("", 0)

    @property
    def best(self) -> Address | None:
        """The address in use, or the first to be tried."""
        if self._proved and self._proved[0].place not in self._denied:
            return self._proved[0]
        return next(iter(self.dialled()), None)

    @property
    def proved(self) -> tuple[Address, ...]:
        """Where it proved its key, the last success first."""
        return tuple(self._proved)

    def __len__(self) -> int:
        return len(self.dialled())

    def dialled(self) -> list[Address]:
        """All of them, each place once, in the order in which they are to be tried."""
        fresh = [*self._hinted, *self._static]
        fresh.sort(key=lambda one: (is_link_local(one.host), not self._shares_network(one.host)))
        places: dict[tuple[str, int], Address] = {}
        for one in [*self._proved, *fresh]:
            places.setdefault(one.place, one)
        return sorted(places.values(), key=lambda one: one.place in self._denied)

    def add(self, hint: Address) -> None:
        """Take in a hint; one that is known already only wakes the link."""
        kept = self._static if hint.source == STATIC else self._hinted
        known = [*self._proved, *kept]
        if all(one.place != hint.place for one in known):
            kept.insert(0, hint)
            self._static[MAX_STATIC:] = []
            self._bound()
        self.news.set()

    def forget_static(self) -> None:
        """The settings name others now."""
        self._static.clear()

    def prove(self, address: Address) -> bool:
        """The peer proved its key there; says whether that changes what is to be remembered."""
        self._denied.discard(address.place)
        self._hinted = [one for one in self._hinted if one.place != address.place]
        if self._proved and self._proved[0].place == address.place:
            return False
        self._proved = [address, *(one for one in self._proved if one.place != address.place)]
        self._bound()
        return True

    def deny(self, address: Address) -> bool:
        """Another key answered there; says whether that is news. It is tried last from now on."""
        is_news = address.place not in self._denied
        self._denied.add(address.place)
        return is_news

    def remember(self, addresses: list[Address]) -> None:
        """Where it proved its key in an earlier life, the last success first."""
        known = {one.place for one in self._proved}
        self._proved += [one for one in addresses if one.place not in known]
        self._bound()

    def ports(self) -> list[int]:
        """The ports at which it may answer, the likeliest first: what its own call does not tell."""
        known = [one.port for one in [*self._proved, *self._hinted] if one.place not in self._denied]
        return list(dict.fromkeys(known or [DEFAULT_PORT]))

    def _bound(self) -> None:
        """Half for what proved itself, half for hints: neither can drive out the other; the oldest go."""
        self._proved[MAX_ADDRESSES // 2 :] = []
        room = MAX_ADDRESSES - len(self._proved)
        while len(self._hinted) > room:
            # Anybody can announce; what the peer told when pairing, or called from, is not lost to that.
            announced = [one for one in self._hinted if one.source == MDNS]
            others = [one for one in self._hinted if one.source != MDNS]
            self._hinted.remove((announced if len(announced) > room // 2 else others)[-1])
        self._denied &= {one.place for one in [*self._proved, *self._hinted, *self._static]}


def joined(host: str, port: int) -> str:
    """``host:port`` as people and files have it; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_link_local(host: str) -> bool:
    """Whether a host is an address that leads no further than one cable."""
    try:
        return ipaddress.ip_address(host).is_link_local
    except ValueError:
        return False


def parse_address(text: str, source: str) -> Address | None:
    """``host``, ``host:port``, ``[v6%zone]:port``, ``v6``; a host is an address or a name. None: neither."""
    host, port = text, DEFAULT_PORT
    if not _is_host(text):
        host, _, number = text.rpartition(":")
        if not (number.isascii() and number.isdigit() and 0 < len(number) <= 5 and 0 < int(number) < 65536):
            return None
        port = int(number)
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
    return Address(host, port, source) if _is_host(host) else None


def static_addresses(texts: tuple[str, ...]) -> list[Address]:
    """The addresses of ``peers.static``. Raises ConfigError naming the one that is none."""
    if len(texts) > MAX_STATIC:
        raise ConfigError(f"peers.static names more than {MAX_STATIC} addresses. Leave some out.")
    found = []
    for text in texts:
        address = parse_address(text, STATIC)
        if address is None:
            example = "write a host or host:port, for example 192.168.1.7 or [fe80::7%eth0]:11634."
            raise ConfigError(f"peers.static = {text!r} is no address: {example}")
        found.append(address)
    return found


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        looks_numeric = re.fullmatch(r"[0-9.]*", text) is not None  # 1.2.3 and 999.1.1.1 are typing errors
        return _NAME.fullmatch(text) is not None and not looks_numeric
    return True

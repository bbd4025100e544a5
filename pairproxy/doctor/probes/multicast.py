"""Who answers mDNS on each interface: asked by multicast, answered to the asker alone (RFC 6762, 6.7).

So no port is shared with the daemon or with the system's own mDNS, and every pairproxy there answers.
"""

import errno
import ipaddress
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack

from pairproxy.doctor.facts import Card
from pairproxy.peers.announcement import SERVICE
from pairproxy.peers.own_addresses import LOOPBACK, OwnAddress, snapshot, usable

GROUP, PORT = "224.0.0.251", 5353
ASKED_S = (0.0, 0.4, 0.8)  # a packet may be lost
LISTEN_S = 1.4  # a responder waits 0.12 s at most before it answers
PACKET_BYTES = 9000
MOST_HEARD = 256  # addresses on one interface; a flood of answers ends the listening sooner
MOST_CARDS = 16
_PTR, _IN = 12, 1
_HEAD = struct.Struct("!6H")  # id, flags, questions, answers, authorities, additional records
_IS_RESPONSE = 0x8000
EHOSTUNREACH_OF_MACOS = 65


def cards(has_loopback: bool) -> tuple[Card, ...]:
    """Each interface with an IPv4 address at which peers may be met; ``has_loopback``: that one alone."""
    found = snapshot()
    if has_loopback:
        here = [one for one in found if one.address == LOOPBACK]
    else:
        here = [one for one in usable(found) if ":" not in one.address]
    asked = [Asked(one) for one in sorted(here)[:MOST_CARDS]]
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for one in asked:
            one.open(stack, selector)
        _listen(asked, selector)
    return tuple(one.card() for one in asked)


class Asked:
    """One interface, and who answered on it."""

    def __init__(self, own: OwnAddress) -> None:
        self._own = own
        self._heard: set[str] = set()
        self._problem = ""
        self._socket: socket.socket | None = None

    def open(self, stack: ExitStack, selector: selectors.BaseSelector) -> None:
        """Make its socket."""
        try:
            made = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(self._own.address))
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
            made.bind((self._own.address, 0))
            made.setblocking(False)
        except OSError as error:
            self._problem = error.strerror or "it takes no socket"
            return
        self._socket = made
        selector.register(made, selectors.EVENT_READ, self)

    def ask(self, question: bytes) -> None:
        """Send it to everybody there."""
        if self._socket is None:
            return
        try:
            self._socket.sendto(question, (GROUP, PORT))
        except OSError as error:
            self._problem = why(error)

    def hear(self) -> None:
        """Take in one answer."""
        assert self._socket is not None  # noqa: S101 - it is registered
        try:
            packet, (host, _) = self._socket.recvfrom(PACKET_BYTES)
        except OSError:
            return
        if is_answer(packet) and len(self._heard) < MOST_HEARD:
            self._heard.add(str(host))

    def card(self) -> Card:
        """What came of it."""
        own = self._own
        network = ipaddress.ip_network(f"{own.address}/{max(own.prefix, 0)}", strict=False)
        return Card(own.name, own.address, str(network), tuple(sorted(self._heard)), self._problem)


def _listen(asked: Iterable[Asked], selector: selectors.BaseSelector) -> None:
    packet = question()
    began_at, due = time.monotonic(), list(ASKED_S)
    while (gone_s := time.monotonic() - began_at) < LISTEN_S:
        if due and gone_s >= due[0]:
            due.pop(0)
            for one in asked:
                one.ask(packet)
        until_s = (due[0] if due else LISTEN_S) - gone_s
        if not selector.get_map():
            return
        for key, _ in selector.select(max(until_s, 0.0)):
            key.data.hear()


def question() -> bytes:
    """Who is there? A DNS message that asks for all instances of our service."""
    return _HEAD.pack(0, 0, 1, 0, 0, 0) + _name() + struct.pack("!2H", _PTR, _IN)


def is_answer(packet: bytes) -> bool:
    """Whether a packet answers that. It may be anybody's: nothing else in it is looked at."""
    if len(packet) < _HEAD.size:
        return False
    _, flags, _, answers, _, _ = _HEAD.unpack_from(packet)
    return bool(flags & _IS_RESPONSE and answers and _name() in packet)


def _name() -> bytes:
    labels = SERVICE.rstrip(".").encode().split(b".")
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def why(error: OSError) -> str:
    """Why nothing could be sent; on macOS that is a permission as a rule."""
    if sys.platform == "darwin" and error.errno in (EHOSTUNREACH_OF_MACOS, errno.EPERM):
        return "macOS does not let this program use the local network"
    return error.strerror or type(error).__name__

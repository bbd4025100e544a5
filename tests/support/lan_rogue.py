"""Somebody on the LAN who lies: forged mDNS packets, and a port that keeps whatever is sent to it."""

import contextlib
import secrets
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from zeroconf._dns import DNSAddress, DNSPointer, DNSQuestion, DNSRecord, DNSService, DNSText
from zeroconf._protocol.incoming import DNSIncoming
from zeroconf._protocol.outgoing import DNSOutgoing
from zeroconf.const import (
    _CLASS_IN,
    _CLASS_UNIQUE,
    _FLAGS_AA,
    _FLAGS_QR_QUERY,
    _FLAGS_QR_RESPONSE,
    _TYPE_A,
    _TYPE_PTR,
    _TYPE_SRV,
    _TYPE_TXT,
)

from pairproxy.peers.announcement import SERVICE
from pairproxy.security.identity import Identity
from tests.support.lan_host import Host

GROUP, MDNS_PORT = "224.0.0.251", 5353
TTL_S = 120
HEAR_S = 3.0  # answers come within 0.12 s; a busy machine takes longer


@dataclass
class Rogue:
    """An mDNS speaker without scruples, in a host."""

    host: Host
    _sock: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self._sock = sock = self.host.new_socket(kind=socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("", MDNS_PORT))
        here = socket.inet_aton(self.host.address)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + here)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def services(self, count: int) -> dict[str, str]:
        """Ask who is there until so many answered: instance name -> announced short id."""
        found: dict[str, str] = {}
        end = time.monotonic() + HEAR_S
        query = DNSOutgoing(_FLAGS_QR_QUERY)
        query.add_question(DNSQuestion(SERVICE, _TYPE_PTR, _CLASS_IN))
        self._send(query)
        while len(found) < count:
            self._sock.settimeout(max(0.01, end - time.monotonic()))
            for record in DNSIncoming(self._sock.recv(9000)).answers():
                if isinstance(record, DNSText) and b"id=" in record.text:
                    found[record.name] = record.text.partition(b"id=")[2][:8].decode()
        return found

    def say_goodbye_for(self, instance: str) -> None:
        """F22: the record of somebody else ends now."""
        self._answer(DNSPointer(SERVICE, _TYPE_PTR, _CLASS_IN, 0, instance))

    def move(self, instance: str, port: int) -> None:
        """F23: an instance that exists is at this host from now on."""
        name = f"pp-{secrets.token_hex(8)}.local."
        kind = _CLASS_IN | _CLASS_UNIQUE
        self._answer(
            DNSService(instance, _TYPE_SRV, kind, TTL_S, 0, 0, port, name),
            DNSAddress(name, _TYPE_A, kind, TTL_S, socket.inet_aton(self.host.address)),
        )

    def announce(self, short_id: str, port: int) -> None:
        """Say that the node of this id is at this host, under an instance name of its own."""
        token = secrets.token_hex(8)
        instance, name = f"{token}.{SERVICE}", f"pp-{token}.local."
        kind = _CLASS_IN | _CLASS_UNIQUE
        text = b"".join(struct.pack("B", len(one)) + one for one in (f"id={short_id}".encode(), b"v=1"))
        self._answer(
            DNSPointer(SERVICE, _TYPE_PTR, _CLASS_IN, TTL_S, instance),
            DNSService(instance, _TYPE_SRV, kind, TTL_S, 0, 0, port, name),
            DNSText(instance, _TYPE_TXT, kind, TTL_S, text),
            DNSAddress(name, _TYPE_A, kind, TTL_S, socket.inet_aton(self.host.address)),
        )

    def _answer(self, *records: DNSRecord) -> None:
        answer = DNSOutgoing(_FLAGS_QR_RESPONSE | _FLAGS_AA)
        for record in records:
            answer.add_answer_at_time(record, 0)
        self._send(answer)

    def _send(self, message: DNSOutgoing) -> None:
        for packet in message.packets():
            self._sock.sendto(packet, (GROUP, MDNS_PORT))


class Sniffer:
    """A port in a host that takes every connection and keeps what it is sent; with an identity over TLS."""

    def __init__(self, host: Host, identity: Identity | None = None) -> None:
        """With TLS it asks for no certificate and shows its own, so that only the other side can refuse."""
        self.connections = 0
        self.raw = bytearray()
        """What came over the network."""
        self.read = bytearray()
        """What could be read of it: the same without TLS."""
        self._context = None if identity is None else _context(identity.certificate_file, identity.key_file)
        self._listener = host.new_socket()
        self._listener.bind((host.address, 0))
        self._listener.listen(64)
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, name="sniffer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10.0)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed: that is the end
            while True:
                met, _ = self._listener.accept()
                self.connections += 1
                met.settimeout(1.0)
                with met, contextlib.suppress(OSError):
                    self._listen(met)

    def _listen(self, met: socket.socket) -> None:
        if self._context is None:
            while some := met.recv(65536):
                self.raw += some
                self.read += some
            return
        self.raw += met.recv(65536, socket.MSG_PEEK)
        with self._context.wrap_socket(met, server_side=True) as secured:
            while some := secured.recv(65536):
                self.read += some


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["pairproxy/1"])
    return context

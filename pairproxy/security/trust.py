"""Whom we believe: the paired peers, one file each in ``home/peers/<device id>.json``.

A peer is believed by its exact certificate, byte for byte. Addresses kept here say where to try, never
whom to believe. A peer that was forgotten is unknown from the next request on.
"""

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.security.certificates import check_profile
from pairproxy.security.identity import short_id
from pairproxy.security.private_files import (
    ensure_private_directory,
    read_private,
    remove_private,
    write_private,
)

MOST_PEERS = 256  # people pair machines by hand; one reads a state document of each every second
MOST_ADDRESSES = 16  # of one peer: a few networks at home and at work, with IPv4 and IPv6
NAME_CHARACTERS = 64
_FILE_BYTES = 64 * 1024
_HOST_AND_PORT = re.compile(
    r"(?: \[ [0-9A-Fa-f:.]{2,45} (?:%[\w.-]{1,32})? \] | [\w.-]{1,253} ) : ([0-9]{1,5})",
    re.ASCII | re.VERBOSE,
)


class PeerRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One paired peer. ``certificate`` is DER, base64 in the file; ``addresses`` are host:port, newest first.

    Unknown fields are refused: a right taken away by a newer version must not come back in an older one.
    """

    node: NodeId
    name: str
    certificate: bytes
    may_use_me: bool
    i_may_use: bool
    addresses: tuple[str, ...] = ()
    slots: int | None = None  # of this node that it may hold at once; None: peers.max_slots decides
    models: tuple[str, ...] = ()  # that it may use here, * and ? stand for text; (): all


class TrustNews(NamedTuple):
    """What reading the files anew brought. Device ids."""

    added: tuple[NodeId, ...]
    changed: tuple[NodeId, ...]
    gone: tuple[NodeId, ...]


class TrustStore:
    """The live table of paired peers and the files behind it. Its methods write small files: milliseconds."""

    def __init__(self, home: Path, own: NodeId) -> None:
        """``own`` is this node's device id, which can never be a peer's. Nothing is read before load()."""
        self._home = home
        self._directory = home / "peers"
        self._own = own
        self._by_node: dict[NodeId, PeerRecord] = {}
        self._by_certificate: dict[bytes, PeerRecord] = {}

    def load(self) -> None:
        """Read all peers. Raises StoreError naming the file that is damaged or open to others."""
        self.reload()

    def reload(self) -> TrustNews:
        """Read all peers anew and say what is different. Raises StoreError, and changes nothing, as load()."""
        before = self._by_node
        ensure_private_directory(self._home)
        ensure_private_directory(self._directory)
        files = sorted(self._directory.glob("*.json"))
        if len(files) > MOST_PEERS:
            raise StoreError(f"{self._directory} holds more than {MOST_PEERS} peers. Remove some files.")
        records = [self._read(file) for file in files]
        self._by_node = {record.node: record for record in records}
        self._by_certificate = {record.certificate: record for record in records}
        return TrustNews(
            added=tuple(node for node in self._by_node if node not in before),
            changed=tuple(
                node for node in self._by_node if before.get(node, self._by_node[node]) != self._by_node[node]
            ),
            gone=tuple(node for node in before if node not in self._by_node),
        )

    def add(self, record: PeerRecord) -> PeerRecord:
        """Keep a peer, in place of an older record of the same node; returns it with its name made printable.

        Raises StoreError, and changes nothing, if the certificate has not our profile or is not the node's,
        if the node is ourselves, if the table is full or the file cannot be written.
        """
        checked = self._checked(record)
        if checked.node not in self._by_node and len(self._by_node) >= MOST_PEERS:
            raise StoreError(f"There are {MOST_PEERS} paired peers already. Forget one, then pair again.")
        self._keep(checked)
        return checked

    def forget(self, node: NodeId) -> bool:
        """Believe ``node`` no longer, at once; says if it was a peer. Raises StoreError if its file stays."""
        record = self._by_node.pop(node, None)
        if record is None:
            return False
        self._by_certificate.pop(record.certificate, None)
        remove_private(self._file(node))
        return True

    def get(self, node: NodeId) -> PeerRecord | None:
        """The peer with this device id."""
        return self._by_node.get(node)

    def by_certificate(self, der: bytes) -> PeerRecord | None:
        """The peer whose certificate is exactly ``der``; ask on every request, not once a connection."""
        return self._by_certificate.get(der)

    def peers(self) -> tuple[PeerRecord, ...]:
        """All peers, in the order of their names."""
        return tuple(sorted(self._by_node.values(), key=lambda record: (record.name, record.node)))

    def remember_address(self, node: NodeId, host: str, port: int) -> None:
        """Keep an address at which the peer proved its key. Writes only if it is new; no peer, no effect.

        Raises StoreError if it is not an address or cannot be written.
        """
        record = self._by_node.get(node)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if record is None or address in record.addresses:
            return
        addresses = (address, *record.addresses)[:MOST_ADDRESSES]
        self._keep(self._checked(msgspec.structs.replace(record, addresses=addresses)))

    def _keep(self, record: PeerRecord) -> None:
        ensure_private_directory(self._home)
        ensure_private_directory(self._directory)
        write_private(self._file(record.node), msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        old = self._by_node.get(record.node)
        if old is not None:
            del self._by_certificate[old.certificate]
        self._by_node[record.node] = record
        self._by_certificate[record.certificate] = record

    def _file(self, node: NodeId) -> Path:
        return self._directory / f"{node}.json"

    def _read(self, file: Path) -> PeerRecord:
        content = read_private(file, _FILE_BYTES)
        try:
            record = self._checked(msgspec.json.decode(content or b"", type=PeerRecord))
            if file != self._file(record.node):
                raise StoreError("It lies under another node's name.")
        except msgspec.DecodeError:
            raise StoreError(f"{file} is damaged. Remove it and pair with that machine again.") from None
        except StoreError as error:
            raise StoreError(f"{file} cannot be used. {error} Or remove the file.") from None
        return record

    def _checked(self, record: PeerRecord) -> PeerRecord:
        if check_profile(record.certificate) != record.node:
            raise StoreError("The certificate belongs to another device id. Pair with that machine again.")
        if record.node == self._own:
            raise StoreError("That is this machine itself. Pair with another one.")
        if len(record.addresses) > MOST_ADDRESSES or not all(map(_is_address, record.addresses)):
            raise StoreError(f"The addresses are not up to {MOST_ADDRESSES} times host:port. Correct them.")
        return msgspec.structs.replace(record, name=printable(record.name) or short_id(record.node))


def printable(text: str) -> str:
    """``text`` without control, invisible and direction-changing characters, 64 characters at most."""
    return "".join(character for character in text[: 4 * NAME_CHARACTERS] if character.isprintable())[
        :NAME_CHARACTERS
    ].strip()


def _is_address(text: str) -> bool:
    match = _HOST_AND_PORT.fullmatch(text)
    return match is not None and 0 < int(match[1]) < 65536

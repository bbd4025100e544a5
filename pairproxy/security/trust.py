"""Whom we believe: the paired peers, one file each in ``home/peers/<device id>.json``.

A peer is believed by its exact certificate, byte for byte. Addresses kept here were told when pairing; they
say where to try, never whom to believe. A peer that was forgotten gets nothing from then on, and hears why.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.security.forgotten import Forgotten, read_forgotten, write_forgotten
from pairproxy.security.known_profiles import KnownProfiles
from pairproxy.security.peer_record import PeerRecord, checked
from pairproxy.security.private_files import (
    ensure_private_directory,
    exclusive,
    read_private,
    remove_private,
    write_private,
)

MOST_PEERS = 256  # people pair machines by hand; one reads a state document of each every second
LOCK_FILE = "trust.lock"
_FILE_BYTES = 64 * 1024


class TrustNews(NamedTuple):
    """What reading the files anew brought. Device ids."""

    added: tuple[NodeId, ...]
    changed: tuple[NodeId, ...]
    gone: tuple[NodeId, ...]


class Trust(NamedTuple):
    """What the files say: whom to believe, and who was forgotten."""

    peers: dict[NodeId, PeerRecord]
    forgotten: dict[NodeId, Forgotten]


class TrustStore:
    """The table of paired peers and the files behind it.

    Commands write: each change reads the files anew under a lock, so that two commands at once lose nothing.
    A running daemon reads only, which is why it can never bring back a peer that was forgotten. Methods read
    and write small files: milliseconds.
    """

    def __init__(self, home: Path, own: NodeId) -> None:
        """``own`` is this node's device id, which can never be a peer's. Nothing is read before load()."""
        self._home = home
        self._directory = home / "peers"
        self._own = own
        self._by_node: dict[NodeId, PeerRecord] = {}
        self._by_certificate: dict[bytes, PeerRecord] = {}
        self._forgotten: dict[NodeId, Forgotten] = {}

    # --- reading ----------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read all peers. Raises StoreError naming the file that is damaged or open to others."""
        self.reload()

    def reload(self) -> TrustNews:
        """Read all anew and say what is different. Raises StoreError, as load(), and changes nothing then."""
        return self.take(self.read())

    def read(self) -> Trust:
        """What the files say now; any thread may ask. Raises StoreError."""
        ensure_private_directory(self._home)
        ensure_private_directory(self._directory)
        files = sorted(self._directory.glob("*.json"))
        if len(files) > MOST_PEERS:
            raise StoreError(f"{self._directory} holds more than {MOST_PEERS} peers. Remove some files.")
        profiles = KnownProfiles(self._home)
        found = [record for file in files if (record := self._read(file, profiles)) is not None]
        profiles.keep()
        forgotten = {one.node: one for one in read_forgotten(self._home)}
        # In both after a crash between two writes: who was forgotten stays so until the pairing is whole.
        return Trust({one.node: one for one in found if one.node not in forgotten}, forgotten)

    def take(self, trust: Trust) -> TrustNews:
        """Go by this from now on; says what is different."""
        before, now = self._by_node, trust.peers
        self._by_node = dict(now)
        self._by_certificate = {record.certificate: record for record in now.values()}
        self._forgotten = dict(trust.forgotten)
        return TrustNews(
            added=tuple(node for node in now if node not in before),
            changed=tuple(node for node in now if node in before and before[node] != now[node]),
            gone=tuple(node for node in before if node not in now),
        )

    def get(self, node: NodeId) -> PeerRecord | None:
        """The peer with this device id."""
        return self._by_node.get(node)

    def by_certificate(self, der: bytes) -> PeerRecord | None:
        """The peer whose certificate is exactly ``der``; ask on every request, not once a connection."""
        return self._by_certificate.get(der)

    def peers(self) -> tuple[PeerRecord, ...]:
        """All peers, in the order of their names."""
        return tuple(sorted(self._by_node.values(), key=lambda record: (record.name, record.node)))

    def forgotten(self) -> tuple[Forgotten, ...]:
        """Who was a peer and is none any more, as far as it is remembered."""
        return tuple(self._forgotten.values())

    def was_forgotten(self, der: bytes) -> bool:
        """Whether a certificate is that of a machine that was a peer."""
        return any(one.certificate == der for one in self._forgotten.values())

    # --- changing ---------------------------------------------------------------------------------------

    def add(self, record: PeerRecord) -> PeerRecord:
        """Keep a peer, in place of an older record of the same node, forgotten or not; returns it as kept.

        Its name is made printable. Raises StoreError, and changes nothing, if the certificate has not our
        profile or is not the node's, if the node is ourselves, if the table is full or the file cannot be
        written.
        """
        kept = checked(record, self._own)
        if not kept.paired_at:
            kept = msgspec.structs.replace(kept, paired_at=int(time.time()))
        with self._changing():
            if kept.node not in self._by_node and len(self._by_node) >= MOST_PEERS:
                raise StoreError(f"There are {MOST_PEERS} paired peers already. Forget one, then pair again.")
            self._keep(kept)
            if kept.node in self._forgotten:
                write_forgotten(self._home, [one for one in self.forgotten() if one.node != kept.node])
            self.reload()
        return kept

    def change(self, node: NodeId, change: Callable[[PeerRecord], PeerRecord]) -> PeerRecord:
        """Keep what ``change`` makes of a peer's record; returns it.

        Raises StoreError, and changes nothing, if there is no such peer or add() would refuse the record.
        """
        with self._changing():
            record = self._by_node.get(node)
            if record is None:
                raise StoreError("That machine is no longer paired. See `pairproxy peers`.")
            kept = checked(change(record), self._own)
            self._keep(kept)
            self.reload()
        return kept

    def forget(self, node: NodeId) -> bool:
        """Believe ``node`` no longer, at once; says if it was a peer. Raises StoreError if its file stays."""
        with self._changing():
            record = self._by_node.pop(node, None)
            if record is None:
                return False
            self._by_certificate.pop(record.certificate, None)
            others = [one for one in self.forgotten() if one.node != node]
            # Without it the peer is a stranger, which costs it an explanation and gains it nothing.
            with contextlib.suppress(StoreError):
                write_forgotten(self._home, [*others, Forgotten(node, record.name, record.certificate)])
            remove_private(self._file(node))
            self.reload()
        return True

    def withdraw(self, node: NodeId) -> None:
        """Undo the add() of a stranger: it is one again. Raises StoreError if its file stays."""
        with self._changing():
            remove_private(self._file(node))
            self.reload()

    def clear(self) -> None:
        """Believe nobody any more, and remember nobody for it: this node gets a new identity."""
        with self._changing():
            for record in self.peers():
                remove_private(self._file(record.node))
            self.reload()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Nobody else changes the files meanwhile, and what they say is known. Raises StoreError."""
        ensure_private_directory(self._home)
        with exclusive(self._home / LOCK_FILE, refusal=_OTHERS_CHANGE):
            self.reload()
            yield

    def _keep(self, record: PeerRecord) -> None:
        write_private(self._file(record.node), msgspec.json.format(msgspec.json.encode(record)) + b"\n")

    def _file(self, node: NodeId) -> Path:
        return self._directory / f"{node}.json"

    def _read(self, file: Path, profiles: KnownProfiles) -> PeerRecord | None:
        """The record in a file; None if it was removed just now."""
        content = read_private(file, _FILE_BYTES)
        if content is None:
            return None
        try:
            told = msgspec.json.decode(content, type=PeerRecord)
            record = checked(told, self._own, profiles.device_id)
            if file != self._file(record.node):
                raise StoreError("It lies under another node's name.")
        except (msgspec.DecodeError, RecursionError) as error:
            if "unknown field" in str(error):  # msgspec's word for it; the value of no field is in that text
                raise StoreError(f"{file} was written by a newer pairproxy. {_BY_A_NEWER}") from None
            raise StoreError(f"{file} is damaged. Remove it and pair with that machine again.") from None
        except StoreError as error:
            raise StoreError(f"{file} cannot be used. {error} Or remove the file.") from None
        return record


_BY_A_NEWER = "Update this one, or remove the file and pair with that machine again."
_OTHERS_CHANGE = "Another pairproxy command changes the peers at this moment. Try again when it is done."

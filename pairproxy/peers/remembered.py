"""The addresses at which each peer proved its key, kept for the daemon's next life.

One private file of the daemon alone; whom to believe is in the trust store, which no daemon writes. So a peer
is found again without multicast, and one that was forgotten does not come back.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.peers.addresses import MAX_ADDRESSES, REMEMBERED, Address, parse_address
from pairproxy.security.private_files import read_private, write_private
from pairproxy.security.trust import MOST_PEERS

FILE = "addresses.json"
SAVE_S = 5.0  # at most so often: an address that flaps must not wear out a disk
MOST_BYTES = 1024 * 1024  # 256 peers with 16 addresses of 100 bytes are 400 KB

_log = logging.getLogger(__name__)


class KeptAddress(msgspec.Struct, frozen=True):
    """``address`` is host:port; ``source``: who named it; ``day``: when it was last good, days since 1970."""

    address: str
    source: str
    day: int


class KeptFile(msgspec.Struct, frozen=True):
    """All of the file: per peer the last success first."""

    peers: dict[str, list[KeptAddress]] = {}


class AddressMemory:
    """What is known of the peers' addresses. ``today`` tells days since 1970."""

    def __init__(self, home: Path, today: Callable[[], int]) -> None:
        self._path = home / FILE
        self._today = today
        self._kept: dict[str, list[KeptAddress]] = {}
        self._changed = asyncio.Event()
        self._complaint = ""

    def load(self, peers: Iterable[NodeId]) -> None:
        """Read what is kept of ``peers``; a file that cannot be used is said so, once, and starts empty."""
        try:
            content = read_private(self._path, MOST_BYTES)
            kept = KeptFile() if content is None else msgspec.json.decode(content, type=KeptFile)
        except StoreError as error:
            self._complain(f"{error} Where the peers were is learned anew.")
            return
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._complain(f"{self._path} is damaged: where the peers were is learned anew.")
            return
        wanted = set(peers)
        self._kept = {
            node: addresses[:MAX_ADDRESSES] for node, addresses in kept.peers.items() if node in wanted
        }

    def of(self, node: NodeId) -> list[Address]:
        """Where a peer proved its key, the last success first."""
        parsed = (parse_address(one.address, REMEMBERED) for one in self._kept.get(node, []))
        return [one for one in parsed if one is not None]

    def keep(self, node: NodeId, proved: Iterable[Address]) -> None:
        """A peer proved its key at these, the last success first."""
        before = {one.address: one for one in self._kept.get(node, [])}
        kept: list[KeptAddress] = []
        for number, address in enumerate(proved):
            known = before.get(str(address))
            source = known.source if known and address.source == REMEMBERED else address.source
            day = self._today() if number == 0 or known is None else known.day
            kept.append(KeptAddress(str(address), source, day))
        if kept != self._kept.get(node) and (node in self._kept or len(self._kept) < MOST_PEERS):
            self._kept[node] = kept[:MAX_ADDRESSES]
            self._changed.set()

    def forget(self, node: NodeId) -> None:
        """The node is no peer any more."""
        if self._kept.pop(node, None) is not None:
            self._changed.set()

    async def run(self) -> None:
        """Write after changes, every SAVE_S at most, until cancelled; then write what is left."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                if not await asyncio.to_thread(self._write, self._encoded()):
                    self._changed.set()  # tried again: a full disk empties
                await asyncio.sleep(SAVE_S)
        finally:
            self.save()

    def save(self) -> None:
        """Write now what is not written yet. Takes milliseconds."""
        if self._changed.is_set():
            self._changed.clear()
            self._write(self._encoded())

    def _encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(KeptFile(self._kept))) + b"\n"

    def _write(self, content: bytes) -> bool:
        try:
            write_private(self._path, content)
        except StoreError as error:
            self._complain(f"{error} Peers will be looked for anew after a restart.")
            return False
        self._complaint = ""
        return True

    def _complain(self, sentence: str) -> None:
        if sentence != self._complaint:
            self._complaint = sentence
            _log.warning("%s", sentence)

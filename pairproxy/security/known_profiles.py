"""Which certificates were found to have our profile, remembered by their digests, so that the next start need
not check them again: that takes cryptography, 12 MB that a daemon would keep for its whole life.

What is remembered is a fact of the bytes of a certificate, never whom to believe: that is what the file of
each peer says, which is read anew each time and lies in the same private home.
"""

import contextlib
import hashlib
from pathlib import Path

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.security.certificates import check_profile
from pairproxy.security.private_files import read_private, write_private

FILE = "peers.checked"
_RULES = b"1"  # of the profile: what another version of it checks differently is checked anew
_FILE_BYTES = 64 * 1024  # a line of 118 bytes for each of 256 peers is half of it


class KnownProfiles:
    """Those of one home, for one reading of its files."""

    def __init__(self, home: Path) -> None:
        """A memory that is damaged, or open to others, is none."""
        self._file = home / FILE
        self._before: dict[str, NodeId] = {}
        self._asked: dict[str, NodeId] = {}
        with contextlib.suppress(StoreError, ValueError):
            lines = (read_private(self._file, _FILE_BYTES) or b"").decode("ascii").splitlines()
            pairs = (line.partition(" ") for line in lines)
            self._before = {digest: NodeId(device_id) for digest, _, device_id in pairs}

    def device_id(self, der: bytes) -> NodeId:
        """The device id of a certificate that has our profile. Raises StoreError for any other."""
        digest = hashlib.sha256(_RULES + b"\0" + der).hexdigest()
        known = self._before.get(digest)
        self._asked[digest] = found = check_profile(der) if known is None else known
        return found

    def keep(self) -> None:
        """Remember those that were asked for, if any is new; on a full disk they are checked again."""
        if self._asked.keys() <= self._before.keys():
            return
        lines = (f"{digest} {device_id}\n" for digest, device_id in self._asked.items())
        with contextlib.suppress(StoreError):
            write_private(self._file, "".join(lines).encode("ascii"))


def are_known(home: Path) -> bool:
    """Whether the peers of ``home`` were checked before: most likely they are still those."""
    return (home / FILE).exists() or not any((home / "peers").glob("*.json"))

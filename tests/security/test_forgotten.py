import stat
import sys
from pathlib import Path

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.security import forgotten
from pairproxy.security.forgotten import FILE, Forgotten, read_forgotten, write_forgotten


def one(number: int) -> Forgotten:
    """A machine that was a peer."""
    return Forgotten(NodeId(f"N{number}"), f"ben-{number}", b"certificate %d" % number)


def test_they_are_kept_in_their_order(home: Path) -> None:
    """What is written is read again; without a file there are none."""
    assert read_forgotten(home) == ()
    write_forgotten(home, [one(1), one(2)])
    assert read_forgotten(home) == (one(1), one(2))


def test_those_forgotten_longest_ago_become_strangers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a bound, and the last ones stay."""
    monkeypatch.setattr(forgotten, "MOST_FORGOTTEN", 3)
    write_forgotten(home, [one(number) for number in range(5)])
    assert read_forgotten(home) == (one(2), one(3), one(4))


def test_as_many_as_are_kept_can_be_read(home: Path) -> None:
    """The file of the most there can be, with the longest certificates and names, can be read."""
    longest = [Forgotten(NodeId("N" * 52), "x" * 64, b"c" * 2048) for _ in range(300)]
    write_forgotten(home, longest)
    assert len(read_forgotten(home)) == forgotten.MOST_FORGOTTEN


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[1]", b"\xff", b"[" * 50_000])
def test_a_damaged_file_is_named(home: Path, content: bytes) -> None:
    """With what becomes of it if it is removed."""
    write_forgotten(home, [])
    (home / FILE).write_bytes(content)
    with pytest.raises(StoreError, match=r"forgotten\.json is damaged"):
        read_forgotten(home)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_the_file_is_closed_to_others(home: Path) -> None:
    """0600 from birth, and refused when it is not."""
    write_forgotten(home, [one(1)])
    assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600
    (home / FILE).chmod(0o644)
    with pytest.raises(StoreError, match="chmod 600"):
        read_forgotten(home)

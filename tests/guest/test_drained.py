"""What a person wanted, kept in the home."""

from pathlib import Path

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.guest.drained import FILE, Drained, keep, read


def test_it_is_read_as_it_was_kept(tmp_path: Path) -> None:
    """With and without an end; nothing, once it is over."""
    assert read(tmp_path, 5.0) is None
    for drained in (Drained(1000.0), Drained(1000.0, 8200.0)):
        keep(tmp_path, drained)
        assert read(tmp_path, 5.0) == drained
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    keep(tmp_path, None)
    keep(tmp_path, None)
    assert read(tmp_path, 5.0) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff\xfe", b"x" * 5000])
def test_a_file_that_cannot_be_read_stands_for_a_drain(tmp_path: Path, content: bytes) -> None:
    """Somebody wanted it: to forget that is worse than to ask for a resume."""
    (tmp_path / FILE).write_bytes(content)
    (tmp_path / FILE).chmod(0o600)
    assert read(tmp_path, 5.0) == Drained(5.0)


def test_a_home_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """With the file's name."""
    with pytest.raises(StoreError, match=FILE):
        keep(tmp_path / "gone", Drained(1.0))

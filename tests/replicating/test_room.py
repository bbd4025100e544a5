"""Whether a model fits."""

import shutil
from pathlib import Path

import pytest

from pairproxy.core.errors import CopyFailed
from pairproxy.replicating.room import RESERVE_BYTES, begun_bytes, check_room


def test_the_disk_of_the_nearest_directory_that_is_there_counts(tmp_path: Path) -> None:
    """A place that Ollama will only make, or that cannot be entered, lies on some disk all the same."""
    where = tmp_path / "not" / "there"
    check_room(where, 0)
    with pytest.raises(
        CopyFailed, match=r"needs 1\d{6}\.\d GB, and \d+\.\d GB are free .*2\.1 GB are left free"
    ):
        check_room(where, 1024**5)


def test_some_is_left_free(tmp_path: Path) -> None:
    """A disk that a model fills to the last byte stops the whole machine."""
    free = shutil.disk_usage(tmp_path).free
    if free < 2 * RESERVE_BYTES:
        pytest.skip("too little is free here to tell")
    with pytest.raises(CopyFailed):
        check_room(tmp_path, free - RESERVE_BYTES // 2)


def test_what_came_before_counts_as_far_as_it_takes_room(tmp_path: Path) -> None:
    """A partial file is as long as the blob from the beginning; its blocks are what came."""
    digest = "sha256:" + "a" * 64
    with (tmp_path / f"sha256-{'a' * 64}-partial").open("wb") as file:
        file.truncate(10_000_000)
        file.write(b"x" * 1_000_000)
    assert 1_000_000 <= begun_bytes(tmp_path, [digest, "sha256:" + "b" * 64]) < 2_000_000

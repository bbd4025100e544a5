"""daemon.json."""

import stat
from pathlib import Path

import pytest

from pairproxy.api.client import DAEMON_FILE, read_daemon_file
from pairproxy.api.schema import DaemonFile
from pairproxy.core.errors import StoreError
from pairproxy.whereabouts import Whereabouts

FILE = DaemonFile(pid=1, node="N", name="anna", admin_port=2, peer_port=None, client_ports={}, token="t")


def test_it_is_told_kept_up_to_date_and_taken_away(home: Path) -> None:
    """Only its owner can read it; what did not change is not written again."""
    where = Whereabouts(home)
    where.change(peer_port=3)
    assert not (home / DAEMON_FILE).exists(), "nobody is here yet"
    where.tell(FILE)
    assert stat.S_IMODE((home / DAEMON_FILE).stat().st_mode) == 0o600
    where.change(peer_port=3)
    assert (read_daemon_file(home).peer_port, where.file.peer_port, where.file.token) == (3, 3, "t")
    written = (home / DAEMON_FILE).stat().st_ino
    where.change(peer_port=3)
    assert (home / DAEMON_FILE).stat().st_ino == written
    where.remove()
    where.remove()
    assert not (home / DAEMON_FILE).exists()
    with pytest.raises(StoreError):
        _ = where.file


def test_a_disk_that_takes_nothing_closes_no_port(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is said, and written with the next change, were it the same again."""
    where = Whereabouts(home)
    where.tell(FILE)
    away = home.rename(home.with_name("away"))
    where.change(peer_port=3)
    assert "commands may not find this daemon's ports" in caplog.text
    assert where.file.peer_port == 3
    away.rename(home)
    where.change(peer_port=3)
    assert read_daemon_file(home).peer_port == 3

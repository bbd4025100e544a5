import os
import sqlite3
import sys
from pathlib import Path

import pytest

from pairproxy.doctor.examining import scene_of
from pairproxy.doctor.facts import Unknown
from pairproxy.doctor.probes.files import history_problem, node_of, open_files, peers, places, settings
from pairproxy.history import schema
from pairproxy.history.store import FILE
from pairproxy.security.identity import load_or_create
from tests.cli.test_trusting import befriend

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")


@posix
def test_what_others_may_read_is_found(tmp_path: Path) -> None:
    """The home and what is in it; settings may be read by others, and not written; links are not followed."""
    home = tmp_path / "home"
    load_or_create(home)
    (home / "config.toml").write_text("")
    (home / "config.toml").chmod(0o644)
    (home / "link").symlink_to("/etc/passwd")
    assert open_files(home) == ()
    (home / "key.pem").chmod(0o640)
    (home / "config.toml").chmod(0o666)
    home.chmod(0o755)
    found = open_files(home)
    assert isinstance(found, tuple)
    assert {(one.path.name, one.mode, one.wanted) for one in found} == {
        ("home", 0o755, "700"),
        ("key.pem", 0o640, "600"),
        ("config.toml", 0o666, "600"),
    }
    assert open_files(tmp_path / "none") == ()


@posix
def test_a_file_of_another_user_is_found(tmp_path: Path) -> None:
    """It may be replaced by its owner at any time."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    tmp_path.chmod(0o700)
    (tmp_path / "key.pem").touch(mode=0o600)
    os.chown(tmp_path / "key.pem", 12345, -1)
    found = open_files(tmp_path)
    assert isinstance(found, tuple)
    assert [(one.path.name, one.is_foreign) for one in found] == [("key.pem", True)]


def test_settings_and_what_is_wrong_with_them(tmp_path: Path) -> None:
    """As the next start would read them: from the file and the environment."""
    assert settings(scene_of(tmp_path, {}))[1] == ""
    told, problem = settings(scene_of(tmp_path, {"PAIRPROXY_ROUTING_POLICY": "no such"}))
    assert isinstance(told, Unknown)
    assert "no such" in problem
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    assert "is not TOML" in settings(scene_of(tmp_path, {}))[1]


def test_peers_and_this_node_are_read_and_nothing_is_made(tmp_path: Path) -> None:
    """Without an identity there are none."""
    home = tmp_path / "home"
    assert peers(scene_of(home, {})) == ((), "")
    assert node_of(home) == ""
    assert not home.exists()
    befriend(home, load_or_create(tmp_path / "ben"), "ben-ws")
    found, problem = peers(scene_of(home, {}))
    assert isinstance(found, tuple)
    assert ([one.name for one in found], problem) == (["ben-ws"], "")
    assert node_of(home) == load_or_create(home).device_id
    next((home / "peers").glob("*.json")).write_text("{")
    found, problem = peers(scene_of(home, {}))
    assert isinstance(found, Unknown)
    assert "is damaged" in problem


def test_room_is_that_of_the_disk_also_where_nothing_is_yet(tmp_path: Path) -> None:
    """Of the home and of the cache."""
    found = {one.what: one for one in places(tmp_path / "not" / "yet")}
    assert set(found) == {"home", "cache"}
    assert found["home"].free_bytes > 0


def test_history_that_cannot_be_used(tmp_path: Path) -> None:
    """None, this version's, a newer one's, and what is none."""
    assert history_problem(tmp_path) == ""
    for version, word in ((schema.VERSION, ""), (schema.VERSION + 1, "a newer pairproxy")):
        connection = sqlite3.connect(tmp_path / FILE)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
        told = history_problem(tmp_path)
        assert isinstance(told, str)
        assert word in told
        assert bool(told) is bool(word)
    (tmp_path / FILE).write_text("something else")
    told = history_problem(tmp_path)
    assert isinstance(told, str)
    assert "holds no history" in told

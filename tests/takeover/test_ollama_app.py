"""What the Ollama apps of macOS and Windows keep, and how it is looked at."""

import sqlite3
from pathlib import Path

import pytest

from pairproxy.takeover.moving import CannotTake, Owner
from pairproxy.takeover.ollama_app import exposed, is_of_app, is_set_to_expose, refuse_exposed


def database(directory: Path, value: int) -> Path:
    """The app's database, as it writes it: with a log of its own beside the file."""
    path = directory / "db.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE settings (id INTEGER PRIMARY KEY, expose BOOLEAN NOT NULL DEFAULT 0)")
    connection.execute("INSERT INTO settings VALUES (1, ?)", (value,))
    connection.commit()
    connection.close()
    return path


def owner(*hosts: str, pid: int | None = 5) -> Owner:
    """Somebody who listens on these."""
    return Owner("app", 11434, hosts or ("127.0.0.1",), pid)


@pytest.mark.parametrize("value", [0, 1])
def test_the_setting_is_read_and_nothing_is_written(tmp_path: Path, value: int) -> None:
    """Also while the app writes: it is seen as it was before."""
    path = database(tmp_path, value)
    before = path.read_bytes()
    assert is_set_to_expose(path) is bool(value)
    with sqlite3.connect(path) as app:
        app.execute("UPDATE settings SET expose = ?", (1 - value,))
        assert is_set_to_expose(path) is bool(value)
        app.rollback()
    app.close()
    assert path.read_bytes() == before


def test_a_setting_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    """No file, none of SQLite's, none with that table, one with no row."""
    path = tmp_path / "db.sqlite"
    assert is_set_to_expose(path) is None
    path.write_bytes(b"something else")
    assert is_set_to_expose(path) is None
    path.unlink()
    sqlite3.connect(path).close()
    assert is_set_to_expose(path) is None
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE settings (expose BOOLEAN)")
    connection.close()
    assert is_set_to_expose(path) is None


def test_a_path_with_odd_signs_is_a_path(tmp_path: Path) -> None:
    """SQLite takes an address, in which ? and % mean something."""
    directory = tmp_path / "100% me?#"
    directory.mkdir()
    assert is_set_to_expose(database(directory, 1)) is True


def test_an_exposed_engine_is_refused_unless_its_variable_explains_it(tmp_path: Path) -> None:
    """Where the setting is unknown, the open socket is all that there is."""
    refuse_exposed(tmp_path, owner(), "")
    refuse_exposed(tmp_path, owner("0.0.0.0"), "0.0.0.0")
    with pytest.raises(CannotTake):
        refuse_exposed(tmp_path, owner("::"), "")
    database(tmp_path, 0)
    refuse_exposed(tmp_path, owner("::"), "")


def test_the_app_says_which_server_is_its_own(tmp_path: Path) -> None:
    """An older one says nothing."""
    assert is_of_app(tmp_path, owner())
    (tmp_path / "ollama.pid").write_text("5\n")
    assert is_of_app(tmp_path, owner())
    assert is_of_app(tmp_path, owner(pid=None))
    assert not is_of_app(tmp_path, owner(pid=6))


def test_only_what_others_reach_is_warned_of() -> None:
    """With the value that opened it, if one did."""
    assert exposed(owner(), "0.0.0.0") == ()
    assert "(OLLAMA_HOST=0.0.0.0)" in exposed(owner("0.0.0.0"), "0.0.0.0")[0]
    assert "OLLAMA_HOST" not in exposed(owner("0.0.0.0"), "")[0]

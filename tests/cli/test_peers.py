import json
from pathlib import Path

import pytest

from pairproxy.cli.trusting import NOBODY
from pairproxy.security.identity import Identity, load_or_create
from tests.cli.test_trusting import befriend
from tests.support.command import here
from tests.support.daemons import Node


@pytest.fixture
def ben(tmp_path: Path) -> Identity:
    """A machine."""
    return load_or_create(tmp_path / "ben")


def test_without_peers_it_says_how_to_begin(home: Path) -> None:
    """Also in a home in which nothing is yet, and makes nothing there."""
    done = here("peers", "--home", home)
    assert (done.returncode, " ".join(done.stdout.split())) == (0, NOBODY)
    assert not any(home.iterdir())
    told = json.loads(here("peers", "--home", home, "--json").stdout)
    assert told == {"has_daemon": False, "peers": [], "forgotten": {}}


def test_without_a_daemon_it_shows_what_is_kept(home: Path, ben: Identity) -> None:
    """Names, ids and rights; that nobody looks who is there is said."""
    befriend(home, ben, "ben-ws")
    shown = here("peers", "--home", home, COLUMNS="200").stdout
    assert "ben-ws" in shown
    assert f"{ben.device_id[:4]}-{ben.device_id[4:8]}" in shown
    assert "No daemon runs here" in shown
    (told,) = json.loads(here("peers", "--home", home, "--json").stdout)["peers"]
    assert (told["name"], told["node"], told["is_up"]) == ("ben-ws", ben.device_id, None)
    assert (told["may_use_me"], told["i_may_use"], told["slots"], told["models"]) == (True, True, None, [])
    assert told["paired_at"] > 1_700_000_000


def test_who_may_fill_the_disk_is_shown(home: Path, ben: Identity) -> None:
    """Only while it may use this machine at all."""
    befriend(home, ben, "ben-ws")
    assert "add models" not in here("peers", "--home", home, COLUMNS="200").stdout
    here("rights", "ben-ws", "--may-add-models", "--home", home)
    assert "yes, may add models" in here("peers", "--home", home, COLUMNS="200").stdout
    (told,) = json.loads(here("peers", "--home", home, "--json").stdout)["peers"]
    assert told["may_add_models"] is True
    here("rights", "ben-ws", "--may-not-use-me", "--home", home)
    assert "add models" not in here("peers", "--home", home, COLUMNS="200").stdout


def test_a_daemon_tells_who_is_there(live: list[Node]) -> None:
    """With the address in use."""
    (told,) = json.loads(here("peers", "--home", live[0].home, "--json").stdout)["peers"]
    assert (told["name"], told["is_up"], told["problem"]) == ("B", True, None)
    assert told["address"] == f"127.0.0.1:{live[1].file.peer_port}"
    assert told["age_s"] < 10
    assert " there " in here("peers", "--home", live[0].home, COLUMNS="200").stdout


def test_a_hostile_name_does_nothing_to_the_terminal(home: Path, ben: Identity) -> None:
    """Nor is it cut where it is data."""
    befriend(home, ben, "\x1b[2Jben [bold]")
    shown = here("peers", "--home", home, COLUMNS="200").stdout
    assert "\x1b" not in shown
    assert "[2Jben [bold]" in shown

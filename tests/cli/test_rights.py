import json
from pathlib import Path

import pytest

from pairproxy.cli.trusting import store_of
from pairproxy.security.identity import Identity, load_or_create
from tests.cli.test_trusting import befriend
from tests.support.command import here
from tests.support.daemons import Daemons, settings, until


@pytest.fixture
def ben(home: Path, tmp_path: Path) -> Identity:
    """A machine that is paired with the home."""
    identity = load_or_create(tmp_path / "ben")
    befriend(home, identity, "ben-ws")
    return identity


def told(home: Path, *options: str) -> dict[str, object]:
    """What the command says is in force."""
    found: dict[str, object] = json.loads(here("rights", "ben-ws", *options, "--home", home, "--json").stdout)
    return found


def test_without_an_option_it_shows_them(home: Path, ben: Identity) -> None:
    """And changes nothing."""
    before = store_of(home)
    shown = here("rights", "ben-ws", "--home", home).stdout
    assert "may use this machine: yes" in shown
    after = store_of(home)
    assert before is not None
    assert after is not None
    assert before.peers() == after.peers()


def test_each_right_is_set_alone(home: Path, ben: Identity) -> None:
    """What is not named stays."""
    assert told(home, "--slots", "2")["slots"] == 2
    found = told(home, "--model", "qwen*", "--model", "m:1")
    assert (found["slots"], found["models"]) == (2, ["qwen*", "m:1"])
    assert told(home, "--may-add-models")["may_add_models"] is True
    assert told(home, "--may-not-add-models")["may_add_models"] is False
    assert told(home, "--may-not-use-me")["may_use_me"] is False
    assert told(home, "--i-may-not-use")["i_may_use"] is False
    found = told(home, "--any-slots", "--all-models", "--may-use-me", "--i-may-use")
    assert found == {
        "name": "ben-ws", "node": ben.device_id, "may_use_me": True, "i_may_use": True,
        "slots": None, "models": [], "has_daemon": False, "may_add_models": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        ("--slots", "0"),
        ("--slots", "1", "--any-slots"),
        ("--model", "m", "--all-models"),
        ("--slots", "x"),
    ],
)
def test_what_contradicts_itself_is_wrong_usage(home: Path, ben: Identity, options: tuple[str, ...]) -> None:
    """Exit status 2; nothing changes."""
    assert here("rights", "ben-ws", *options, "--home", home).returncode == 2
    assert told(home)["slots"] is None


@pytest.mark.slow  # what a peer sees is in tests/core/test_rights.py
def test_a_daemon_goes_by_them_at_once(tmp_path: Path) -> None:
    """The peer sees the share, or nothing of a model that it may not use, without a restart."""
    with Daemons(tmp_path) as daemons:
        daemons.home("A", settings(slots=3))
        daemons.home("B", settings(paced={"model": "other:1b", "decode": 200.0}))
        daemons.pair("A", "B")
        a, b = daemons.start("A", "B")
        daemons.until_connected()
        assert b.view_of(a).engines[0].slots == 3
        here("rights", "B", "--slots", "1", "--home", a.home)
        until(lambda: b.view_of(a).engines[0].slots == 1, "B sees its share")
        here("rights", "B", "--model", "secret*", "--home", a.home)
        until(lambda: b.view_of(a).engines == (), "B sees no model")
        here("rights", "B", "--any-slots", "--all-models", "--home", a.home)
        until(lambda: [one.slots for one in b.view_of(a).engines] == [3], "B sees all again")

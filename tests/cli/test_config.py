"""pairproxy config."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pairproxy.config import Settings
from pairproxy.effective import flat
from pairproxy.loading import load
from tests.support.command import here, sentence
from tests.support.daemons import Daemons, settings

TEXT = """\
[peers]
max_slots = 2
[tracing]
endpoint = "https://me:canary@box:4318/v1?canary=1"
[[engines]]
kind = "paced"
listen = ""
[engines.paced]
decode = 7.0
[[engines]]
kind = "ollama"
url = "http://127.0.0.1:9"
aliases = { "a b" = "c" }
"""


def with_file(home: Path, text: str) -> Path:
    """The settings file of a home."""
    file = home / "config.toml"
    file.write_text(text)
    return file


def shown(home: Path, **environment: str) -> dict[str, dict[str, Any]]:
    """What `config show --json` says, by key."""
    done = here("config", "show", "--home", home, "--json", **environment)
    assert done.returncode == 0, done.stderr
    return {one["key"]: one for one in json.loads(done.stdout)["settings"]}


def test_what_is_shown_is_a_file_that_means_the_same(home: Path, tmp_path: Path) -> None:
    """Every setting is in it; only what is no secret can be read from it."""
    with_file(home, TEXT.replace("me:canary@", "").replace("?canary=1", ""))
    done = here("config", "show", "--home", home)
    again = tmp_path / "again.toml"
    again.write_text(done.stdout)
    assert load(again, {}) == load(home / "config.toml", {})
    tables = tomllib.loads(done.stdout)
    assert set(tables) == set(Settings.__struct_fields__)


def test_each_value_is_told_where_it_comes_from(home: Path) -> None:
    """The file by its line, a variable by its name."""
    with_file(home, TEXT)
    found = shown(home, PAIRPROXY_LOG_LEVEL="debug", PAIRPROXY_PEERS_MAX_SLOTS="3")
    assert found["engines[0].paced.decode"] == {
        "key": "engines[0].paced.decode", "value": 7.0, "source": "file", "line": 9,
    }  # fmt: skip
    assert (found["log.level"]["source"], found["log.level"]["variable"]) == (
        "environment",
        "PAIRPROXY_LOG_LEVEL",
    )
    assert (found["peers.max_slots"]["value"], found["peers.max_slots"]["source"]) == (3, "environment")
    assert found["limits.attempts"] == {"key": "limits.attempts", "value": 3, "source": "default"}
    text = here("config", "show", "--home", home, "--changed").stdout
    assert 'aliases = { "a b" = "c" }' in text
    assert "line 13" in text
    assert "attempts" not in text


def test_secrets_are_hidden(home: Path) -> None:
    """In text and JSON."""
    with_file(home, TEXT)
    for more in ([], ["--json"], ["--changed"]):
        done = here("config", "show", "--home", home, *more)
        assert "box:4318" in done.stdout
        assert "canary" not in done.stdout


def test_without_a_file_the_defaults_are_shown(home: Path) -> None:
    """And that there is none."""
    done = here("config", "show", "--home", home)
    assert "there is no such file" in done.stdout
    assert set(shown(home)) == set(flat(Settings()))
    assert "All settings are the defaults." in here("config", "show", "--home", home, "--changed").stdout


@pytest.mark.slow
def test_a_daemon_that_goes_by_others_is_told(tmp_path: Path) -> None:
    """With what changes it; after a reload the one is in force, and the other still waits for a restart."""
    with Daemons(tmp_path) as daemons:
        home = daemons.home("anna", settings())
        daemons.start("anna")
        assert not [one for one in shown(home).values() if one.get("differs")]
        text = (home / "config.toml").read_text()
        (home / "config.toml").write_text(
            text.replace("slots = 1", "slots = 4") + "[routing]\nqueue_limit = 5\n[limits]\nconnections = 9\n"
        )
        differing = {key: one for key, one in shown(home).items() if one.get("differs")}
        assert {key: (one["in_force"], one["remedy"]) for key, one in differing.items()} == {
            "engines[0].slots": (1, "restart"), "routing.queue_limit": (256, "reload"),
            "limits.connections": (512, "restart"),
        }  # fmt: skip
        told = here("config", "show", "--home", home, "--changed").stdout
        assert "in force: 256, reload to change" in told
        here("reload", "--home", home)
        left = {key for key, one in shown(home).items() if one.get("differs")}
        assert left == {"engines[0].slots", "limits.connections"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[peers]\nlisen = 1\n", "line 2: there is no setting peers.lisen. Did you mean peers.listen?"),
        ("[peers]\nlisten = 1\n", "line 2: peers.listen: Expected `str`"),
        ('[peers]\n\nstatic = ["http://x"]\n', "line 3: peers.static = 'http://x' is no address"),
        ('[clients]\nnames = ["a b"]\n', "line 2: clients.names: 'a b' is neither a name"),
        ("[peers\n", "is not TOML"),
    ],
)
def test_a_file_with_a_fault_is_told_by_its_line(text: str, words: str, home: Path) -> None:
    """Exit status 1 and one sentence, or the same as JSON."""
    file = with_file(home, text)
    done = here("config", "check", "--home", home)
    assert done.returncode == 1
    assert words in sentence(done)
    assert str(file) in done.stderr
    by_name = here("config", "check", file, "--json")
    assert by_name.returncode == 1
    assert words in json.loads(by_name.stdout)["problem"]
    assert here("config", "show", "--home", home).returncode == 1


def test_a_good_file_is_good(home: Path) -> None:
    """And so is none; one that was named and is not there is not."""
    assert "the defaults and the environment are good" in here("config", "check", "--home", home).stdout
    file = with_file(home, TEXT)
    assert here("config", "check", "--home", home).stdout == f"{file} is good.\n"
    assert "There is no settings file" in sentence(here("config", "check", home / "none.toml"))
    wrong = here("config", "check", "--home", home, PAIRPROXY_LOG_LEVEL="loud")
    assert sentence(wrong).startswith("PAIRPROXY_LOG_LEVEL: log.level: ")


def test_the_path_alone_is_printed(home: Path) -> None:
    """So that a shell can use it."""
    done = here("config", "path", "--home", home)
    assert done.stdout == f"{home / 'config.toml'}\n"
    assert "no such file yet" in done.stderr
    with_file(home, TEXT)
    assert here("config", "path", "--home", home).stderr == ""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.takeover.asking import answers
from tests.support.command import here
from tests.support.daemons import Daemons
from tests.support.free_ports import free_port
from tests.support.stand_in_machine import StandInMachine


@pytest.fixture
def box(tmp_path: Path, home: Path) -> Iterator[StandInMachine]:
    """A machine whose Ollama runs, and the settings for it."""
    with StandInMachine(tmp_path / "box") as machine:
        machine.start()
        (home / "config.toml").write_text(machine.config())
        yield machine


def test_a_dry_run_shows_all_and_changes_nothing(box: StandInMachine, home: Path) -> None:
    """Also with no daemon; as JSON the same stands in one document."""
    tree = box.tree()
    done = here("takeover", "--dry-run", "--home", home, **box.environment())
    assert done.returncode == 0, done.stderr
    for line in (str(box.drop_in), f'    Environment="OLLAMA_HOST=127.0.0.1:{box.moved}"', "daemon-reload"):
        assert line in done.stdout.replace("\n  ", " ") or line in done.stdout
    told = here("takeover", "--dry-run", "--json", "--home", home, **box.environment())
    (planned,) = json.loads(told.stdout)["planned"]
    assert (planned["what"], planned["usual"], planned["moved"]) == ("take", box.usual, box.moved)
    assert "run: systemctl restart ollama.service" in planned["changes"]
    assert box.tree() == tree
    assert not (home / "takeover.json").exists()


def test_without_a_daemon_it_says_how_to_go_on(box: StandInMachine, home: Path) -> None:
    """Nobody would answer on the port."""
    done = here("takeover", "--yes", "--home", home, **box.environment())
    assert done.returncode == 3
    assert "pairproxy up --takeover" in done.stderr
    assert "pairproxy service install" in done.stderr
    assert answers("ollama", box.usual)


def test_nothing_there_is_told_by_the_exit_status(home: Path) -> None:
    """A script asked for a takeover, and there is none."""
    (home / "config.toml").write_text(
        f'[[engines]]\nkind = "ollama"\nurl = "http://127.0.0.1:{free_port()}"\n'
        f'listen = "127.0.0.1:{free_port()}"\n'
    )
    done = here("takeover", "--home", home, PATH="")
    assert done.returncode == 1
    assert "there is nothing to take over" in done.stdout
    assert here("takeover", "--kind", "lmstudio", "--home", home).returncode == 1
    assert here("takeover", "--kind", "vllm", "--home", home).returncode == 2


def test_an_engine_that_made_room_for_nobody_is_no_success(box: StandInMachine, home: Path) -> None:
    """It stands at its private port, and no daemon at the usual one: what calls that is refused. LM Studio,
    which is not here, is no news."""
    box.systemctl("stop", "ollama.service")
    unit = box.units / "ollama.service"
    unit.write_text(unit.read_text().replace(f"127.0.0.1:{box.usual}", f"127.0.0.1:{box.moved}"))
    box.systemctl("daemon-reload")
    box.systemctl("start", "ollama.service")
    box.until_at(box.moved)
    (home / "config.toml").write_text(box.config())
    done = here("takeover", "--home", home, **box.environment())
    assert (done.returncode, "LM Studio" in done.stdout) == (3, False)
    assert f"nobody answers on port {box.usual}" in done.stderr
    assert "`pairproxy up`" in done.stderr


@pytest.mark.slow
def test_nobody_to_ask_is_no_yes(box: StandInMachine, home: Path, tmp_path: Path) -> None:
    """It shows the plan and changes nothing; with --yes it does it, and release puts it back."""
    tree = box.tree()
    with Daemons(tmp_path) as daemons:
        daemons.home("home", box.config())
        (node,) = daemons.start("home")
        done = here("takeover", "--home", node.home, **box.environment())
        assert done.returncode == 1
        assert "Run it again with --yes" in done.stderr
        assert box.tree() == tree
        done = here("takeover", "--yes", "--json", "--home", node.home, **box.environment())
        assert done.returncode == 0, done.stderr
        (moved,) = json.loads(done.stdout)["moved"]
        assert moved["problem"] is None
        assert moved["gap_s"] >= 0
        done = here("takeover", "--home", node.home, **box.environment())
        assert (done.returncode, "taken over already" in done.stdout) == (0, True)
        dry = here("release", "--dry-run", "--home", node.home, **box.environment())
        assert f"remove {box.drop_in}" in dry.stdout.replace("\n", "")
        assert here("release", "--home", node.home, **box.environment()).returncode == 1
        done = here("release", "--yes", "--home", node.home, **box.environment())
        assert done.returncode == 0, done.stderr
        assert "Ollama is back on its port." in done.stdout
    assert box.tree() == tree

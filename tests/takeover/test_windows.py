"""The Ollama app of Windows is moved by the person's environment variable."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.takeover.machine import Machine
from pairproxy.takeover.moving import CannotTake, Move, Owner, Plan
from pairproxy.takeover.registry import MACHINE, REG_EXPAND_SZ, REG_SZ, USER, UserVariables
from pairproxy.takeover.windows import WindowsApp, beside, start_with
from tests.support.moving_engines import Taking, front
from tests.support.stand_ins import StandIns
from tests.support.winreg import FileRegistry

CURRENT_USER, LOCAL_MACHINE = 0x80000001, 0x80000002


class Windows(StandIns):
    """A Windows of stand-ins, with the app installed for this person."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "taskkill", "powershell")
        local = self.home / "AppData" / "Local"
        self.files_of_app = local / "Ollama"
        self.files_of_app.mkdir(parents=True)
        self.tray = self.app(local / "Programs" / "Ollama" / "ollama app.exe")
        self.keep("support", str(self.files_of_app))
        self.runner.environment["LOCALAPPDATA"] = str(local)
        self.registry = FileRegistry(self.state / "registry")
        self.registry.make(CURRENT_USER, USER, {"TEMP": ["%USERPROFILE%\\Temp", REG_EXPAND_SZ]})
        self.registry.make(LOCAL_MACHINE, MACHINE, {})
        self.machine = Machine(self.runner, UserVariables(self.registry))

    def start(self, value: str | None = None) -> Owner:
        """Start the app; who has the port then."""
        self.run(*start_with(str(self.tray), value))
        self.until_answers("ollama", self.usual)
        return self.owner()

    def owner(self, *hosts: str) -> Owner:
        """The app's server, as owning tells of it on Windows."""
        told = self.files_of_app / "ollama.pid"
        pid = int(told.read_text()) if told.exists() else 1
        server = str(self.tray.with_name("ollama.exe"))
        return Owner("app", self.usual, hosts or ("127.0.0.1",), pid, "ollama.exe", "me", "Ollama", server)

    def plan(self, owner: Owner) -> Plan:
        """What the mover wants to do."""
        move = Move("ollama", owner, self.usual, self.moved)
        assert WindowsApp().applies(move)
        return WindowsApp().plan(move, self.machine)

    def told(self, plan: Plan) -> str:
        """What a dry run prints."""
        return "\n".join(line for step in plan.steps for line in step.describe(self.runner))


@pytest.fixture
def windows(tmp_path: Path) -> Iterator[Windows]:
    """One such machine."""
    with Windows(tmp_path / "windows") as windows:
        yield windows


@pytest.mark.slow
def test_it_is_taken_over_and_released(windows: Windows, tmp_path: Path) -> None:
    """The variable stays set meanwhile, as Windows starts the app with it; then it is gone."""
    owner, files, registry = windows.start(), windows.files(), windows.registry.told
    with front(tmp_path / "daemon", windows, "ollama") as node:
        taking = Taking(node, windows, "ollama", WindowsApp(), windows.machine)
        taking.take(taking.plan(owner), owner)
        taking.check_served()
        told = windows.registry.told[f"{CURRENT_USER}\\{USER}"]
        assert told["OLLAMA_HOST"] == [f"127.0.0.1:{windows.moved}", REG_SZ]
        taking.release()
        taking.check_back(files)
    assert windows.registry.told == registry


@pytest.mark.slow
def test_whatever_fails_it_is_put_back(windows: Windows, tmp_path: Path) -> None:
    """Each command of a takeover and of a release fails once; the old value comes back with its type."""
    old = f"127.0.0.1:{windows.usual}"
    windows.registry.make(CURRENT_USER, USER, {"OLLAMA_HOST": [old, REG_EXPAND_SZ]})
    windows.start(old)
    registry = windows.registry.told
    with front(tmp_path / "daemon", windows, "ollama") as node:
        taking = Taking(node, windows, "ollama", WindowsApp(), windows.machine)
        taking.check_interruptions(windows.owner)
    assert windows.registry.told == registry


def test_the_plan_names_every_change(windows: Windows) -> None:
    """Planning it changes nothing."""
    owner, registry = windows.start(), windows.registry.told
    told = windows.told(windows.plan(owner))
    assert f"set your environment variable OLLAMA_HOST to 127.0.0.1:{windows.moved}" in told
    assert "taskkill /IM 'ollama app.exe'" in told
    assert "/F" not in told
    assert windows.registry.told == registry


def test_what_an_administrator_set_for_all_is_told(windows: Windows) -> None:
    """The person's own beats it; on the way back the app has it again."""
    windows.registry.make(LOCAL_MACHINE, MACHINE, {"OLLAMA_HOST": ["127.0.0.1:7", REG_SZ]})
    plan = windows.plan(windows.start())
    assert any("An administrator set OLLAMA_HOST" in note for note in plan.notes)
    assert "127.0.0.1:7" in str(plan.steps[1])


def test_the_apps_own_setting_is_a_reason_not_to_move_it(windows: Windows) -> None:
    """It beats the variable."""
    owner = windows.start()
    with sqlite3.connect(windows.files_of_app / "db.sqlite") as database:
        database.execute("CREATE TABLE settings (id INTEGER, expose BOOLEAN)")
        database.execute("INSERT INTO settings VALUES (1, 1)")
    database.close()
    with pytest.raises(CannotTake, match="Turn off `Expose Ollama to the network`"):
        windows.plan(owner)


def test_one_that_is_open_by_its_variable_needs_a_yes(windows: Windows) -> None:
    """Other machines lose it meanwhile."""
    windows.registry.make(CURRENT_USER, USER, {"OLLAMA_HOST": ["0.0.0.0", REG_SZ]})
    windows.start()
    assert "(OLLAMA_HOST=0.0.0.0)" in windows.plan(windows.owner("0.0.0.0")).warnings[0]


def test_a_server_that_the_app_did_not_start_is_left_alone(windows: Windows) -> None:
    """`ollama serve` in a terminal is the same program."""
    with pytest.raises(CannotTake, match="not started by the Ollama app"):
        windows.plan(windows.owner())


def test_an_app_of_macos_is_not_its_affair(windows: Windows) -> None:
    """It has another way."""
    owner = Owner("app", 1, (), executable="/Applications/Ollama.app/Contents/Resources/ollama")
    assert not WindowsApp().applies(Move("ollama", owner, 1, 2))


def test_the_app_is_beside_its_server() -> None:
    """Wherever the person installed it."""
    assert beside(r"D:\LLM\Ollama\ollama.exe") == r"D:\LLM\Ollama\ollama app.exe"


@pytest.mark.parametrize("name", ["O'Neill", "a\u2019b", "$(calc)", "`n"])
def test_a_path_is_nothing_but_a_path_to_powershell(name: str) -> None:
    """In single quotes nothing is expanded, and every kind of quote ends them unless it is doubled."""
    script = start_with(rf"C:\Users\{name}\ollama app.exe", "127.0.0.1:11534")[-1]
    inside = re.search(r"-FilePath '(.*)' -ArgumentList", script)
    assert inside is not None
    quotes = re.findall("['\u2018\u2019]+", inside[1])
    assert all(len(run) % 2 == 0 for run in quotes)
    assert (
        inside[1].replace("''", "'").replace("\u2019\u2019", "\u2019") == rf"C:\Users\{name}\ollama app.exe"
    )

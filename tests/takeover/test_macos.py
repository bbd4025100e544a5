"""The Ollama app of macOS is moved by a variable of its session, which does not stay set."""

import asyncio
import plistlib
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.takeover import record
from pairproxy.takeover.asking import is_refused
from pairproxy.takeover.machine import Machine, StepFailed
from pairproxy.takeover.macos import AGENT, QUIT, SUPPORT, MacApp, agent_plist
from pairproxy.takeover.mending import AWAY_S, Mending
from pairproxy.takeover.moving import CannotTake, Move, Owner, OwnerKind
from pairproxy.takeover.record import Taken
from tests.support.moving_engines import Taking, front, hasty
from tests.support.running import run_async
from tests.support.stand_ins import StandIns


class Mac(StandIns):
    """A Mac of stand-ins, with the app installed."""

    def __init__(self, directory: Path, *ports: int) -> None:
        super().__init__(directory, "launchctl", "osascript", "open", ports=ports or None)
        self.bundle = directory / "Applications" / "Ollama.app"
        self.app(self.bundle / "Contents" / "MacOS" / "Ollama")
        (self.home / SUPPORT).mkdir(parents=True)
        (self.home / "Library" / "LaunchAgents").mkdir()
        self.keep("support", str(self.home / SUPPORT))

    def open(self) -> Owner:
        """Open the app; who has the port then."""
        self.run("open", "-a", str(self.bundle))
        self.until_answers("ollama", self.usual)
        return self.owner()

    def owner(self, *hosts: str, kind: OwnerKind = "app") -> Owner:
        """The app's server, as owning tells of it on a Mac."""
        told = self.home / SUPPORT / "ollama.pid"
        pid = int(told.read_text()) if told.exists() else 1
        executable = f"{self.bundle}/Contents/Resources/ollama"
        return Owner(
            kind, self.usual, hosts or ("127.0.0.1",), pid, "ollama", "me", "Ollama", executable,
            (executable, "serve"),
        )  # fmt: skip

    def set_to_expose(self, value: int) -> None:
        """Turn the app's setting on or off."""
        with sqlite3.connect(self.home / SUPPORT / "db.sqlite") as database:
            database.execute("CREATE TABLE IF NOT EXISTS settings (id INTEGER, expose BOOLEAN NOT NULL)")
            database.execute("DELETE FROM settings")
            database.execute("INSERT INTO settings VALUES (1, ?)", (value,))
        database.close()


@pytest.fixture
def mac(tmp_path: Path) -> Iterator[Mac]:
    """One Mac; everything that runs on it ends with the test."""
    with Mac(tmp_path / "mac") as mac:
        yield mac


def plan(mac: Mac, owner: Owner) -> tuple[str, ...]:
    """What a dry run prints."""
    machine = Machine(mac.runner)
    move = Move("ollama", owner, mac.usual, mac.moved)
    assert MacApp().applies(move)
    return tuple(
        line for step in MacApp().plan(move, machine).steps for line in step.describe(machine.runner)
    )


def test_the_plan_names_every_change(mac: Mac) -> None:
    """Planning it changes nothing."""
    mac.set_to_expose(0)
    owner, files = mac.open(), mac.files()
    told = "\n".join(plan(mac, owner))
    for part in (
        f"{AGENT}.plist (mode 0644)", f"launchctl setenv OLLAMA_HOST 127.0.0.1:{mac.moved}", "osascript -e",
        f"open -g -j -a {mac.bundle}", f"answers at 127.0.0.1:{mac.moved}", "launchctl unsetenv OLLAMA_HOST",
    ):  # fmt: skip
        assert part in told
    assert mac.files() == files
    assert not (mac.state / "launchd").exists()


@pytest.mark.slow
def test_it_is_taken_over_and_released(mac: Mac, tmp_path: Path) -> None:
    """The variable is set only while the app starts; what was set before is set afterwards."""
    mac.keep("launchd", {"OLLAMA_HOST": f"127.0.0.1:{mac.usual}", "PATH": "/bin"})
    owner, files = mac.open(), mac.files()
    with front(tmp_path / "daemon", mac, "ollama") as node:
        taking = Taking(node, mac, "ollama", MacApp(), Machine(mac.runner))
        taking.take(taking.plan(owner), owner)
        taking.check_served()
        assert mac.known("launchd") == {"OLLAMA_HOST": f"127.0.0.1:{mac.usual}", "PATH": "/bin"}
        assert (mac.home / "Library" / "LaunchAgents" / f"{AGENT}.plist").is_file()
        taking.release()
        taking.check_back(files)
    assert mac.known("launchd") == {"OLLAMA_HOST": f"127.0.0.1:{mac.usual}", "PATH": "/bin"}


@pytest.mark.slow
def test_whatever_fails_it_is_put_back(mac: Mac, tmp_path: Path) -> None:
    """Each command of a takeover and of a release fails once."""
    mac.open()
    with front(tmp_path / "daemon", mac, "ollama") as node:
        taking = Taking(node, mac, "ollama", MacApp(), Machine(mac.runner))
        taking.check_interruptions(mac.owner)
        assert mac.known("launchd") == {}


def test_the_apps_own_setting_is_a_reason_not_to_move_it(mac: Mac) -> None:
    """It beats the variable: the app would come back to the port for every address."""
    owner = mac.open()
    mac.set_to_expose(1)
    with pytest.raises(CannotTake, match="Turn off `Expose Ollama to the network`"):
        plan(mac, owner)


@pytest.mark.parametrize("content", [None, b"no database"])
def test_where_the_setting_cannot_be_read_the_open_socket_tells(mac: Mac, content: bytes | None) -> None:
    """Open to all, and not by the variable: that is the setting."""
    mac.open()
    if content is not None:
        (mac.home / SUPPORT / "db.sqlite").write_bytes(content)
    with pytest.raises(CannotTake, match="Turn off"):
        plan(mac, mac.owner("0.0.0.0"))
    assert plan(mac, mac.owner())


def test_one_that_is_open_by_its_variable_needs_a_yes(mac: Mac) -> None:
    """Other machines lose it meanwhile."""
    mac.open()
    mac.keep("launchd", {"OLLAMA_HOST": "0.0.0.0"})
    move = Move("ollama", mac.owner("0.0.0.0"), mac.usual, mac.moved)
    told = MacApp().plan(move, Machine(mac.runner))
    assert "Other machines can reach this engine now (OLLAMA_HOST=0.0.0.0)" in told.warnings[0]


def test_over_ssh_nothing_would_reach_the_app(mac: Mac) -> None:
    """launchd has another domain there."""
    owner = mac.open()
    mac.keep("session", "Background")
    with pytest.raises(CannotTake, match="in Terminal on the Mac itself"):
        plan(mac, owner)


def test_a_server_that_the_app_did_not_start_is_left_alone(mac: Mac) -> None:
    """The command `ollama` in a terminal is the same program; and so is one whose app has ended."""
    with pytest.raises(CannotTake, match="not started by the Ollama app"):
        plan(mac, mac.owner())
    mac.open()
    (mac.home / SUPPORT / "ollama.pid").write_text("1")
    other = mac.owner()
    (mac.home / SUPPORT / "ollama.pid").write_text("2")
    with pytest.raises(CannotTake, match="not started by the Ollama app"):
        plan(mac, other)


@pytest.mark.slow
def test_a_mac_that_lets_nobody_quit_the_app_is_told_how(mac: Mac) -> None:
    """macOS asks a person whether a terminal may control an app; said no, the takeover is undone."""
    owner = mac.open()
    move = Move("ollama", owner, mac.usual, mac.moved)
    machine = Machine(mac.runner)
    restart = next(one for one in hasty(MacApp().plan(move, machine)).steps if one.undo_in_order)
    (mac.state / "refuses-to-quit").touch()
    with pytest.raises(StepFailed, match=r"did not end in 1 s\. Allow your terminal to control it"):
        restart.undo(machine)


def test_an_engine_elsewhere_is_not_its_affair(mac: Mac) -> None:
    """An app of Windows, and another kind of owner."""
    for owner in (mac.owner(kind="terminal"), Owner("app", 1, (), executable="C:\\Ollama\\ollama.exe")):
        assert not MacApp().applies(Move("ollama", owner, mac.usual, mac.moved))


@pytest.mark.slow
def test_the_agent_sets_the_variable_until_the_server_is_there(mac: Mac, tmp_path: Path) -> None:
    """At log-in: run here by a real shell, with launchctl and nc of the tests."""
    job = plistlib.loads(agent_plist(mac.moved, "it's mine").encode())
    assert (job["Label"], job["RunAtLoad"]) == (AGENT, True)
    shell, flag, script = job["ProgramArguments"]
    (tmp_path / "nc").write_text(
        f"#!/bin/sh\necho $* >> {tmp_path}/asked\n[ $(wc -l < {tmp_path}/asked) -ge 2 ]\n"
    )
    (tmp_path / "nc").chmod(0o755)
    here = script.replace("/bin/launchctl", "launchctl").replace("/usr/bin/nc", str(tmp_path / "nc"))
    subprocess.run([shell, flag, here], env=mac.environment, timeout=20, check=True)
    assert mac.calls == [
        ["launchctl", "setenv", "OLLAMA_HOST", f"127.0.0.1:{mac.moved}"],
        ["launchctl", "setenv", "OLLAMA_HOST", "it's mine"],
    ]
    assert (tmp_path / "asked").read_text().splitlines() == [f"-z 127.0.0.1 {mac.moved}"] * 2


@pytest.mark.slow
def test_an_app_that_was_opened_again_while_the_front_had_its_port_is_mended(
    mac: Mac, tmp_path: Path
) -> None:
    """Without the variable its server finds the port taken and ends, again and again."""
    machine = Machine(mac.runner)
    plan = hasty(MacApp().plan(Move("ollama", mac.open(), mac.usual, mac.moved), machine))
    for step in plan.steps:
        step.do(machine)
    home = tmp_path / "pairproxy"
    taken = Taken("ollama", mac.usual, mac.moved, "macos-app", "", plan.steps, len(plan.steps), is_done=True)
    record.write(home, record.Record((taken,)))
    taking: list[str] = []

    async def mend() -> None:
        times = iter([0.0, *[AWAY_S] * 9])
        async with asyncio.TaskGroup() as group:
            mending = Mending(
                home, lambda: next(times), lambda name, work: group.create_task(work, name=name),
                taking.append, machine=machine,
            )  # fmt: skip
            assert mending.away("ollama") == ""
            assert mending.away("ollama") == ""  # not known yet: the record is being read

    with socket.create_server(("127.0.0.1", mac.usual)):
        mac.run("osascript", "-e", QUIT)
        mac.until_refused(mac.moved)
        before = mac.calls
        run_async(mend())  # the app does not run: somebody ended it
        assert mac.calls == before
        mac.run("open", "-a", str(mac.bundle))
        assert is_refused(mac.moved)
        run_async(mend())
        mac.until_answers("ollama", mac.moved)
    assert taking == []  # the front has the port already
    assert mac.known("launchd") == {}

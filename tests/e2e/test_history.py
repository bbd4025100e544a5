"""What ended is on disk: through kill -9, a full disk, a restart, and with others who read."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from pairproxy.api.client import NoDaemon, get_explanation, get_report, get_runs, get_status
from pairproxy.api.runs import RunSummary
from pairproxy.cli.demo.cluster import node_environment, up_command
from pairproxy.history.reading import Past
from pairproxy.history.store import FILE
from tests.support.asking import Asker
from tests.support.command import here
from tests.support.daemons import Daemons, settings, until


def runs(home: Path) -> dict[str, RunSummary]:
    """What the daemon of a home tells."""
    return {one.run: one for one in get_runs(home, 0.0, 99).runs}


def ask(port: int, count: int, run: str) -> None:
    """So many requests at once, all answered."""
    asker = Asker(port, headers={"X-Pairproxy-Run": run})
    for future in [asker.start(f"hello {one}", tokens=4) for one in range(count)]:
        assert future.result().status == 200


@pytest.mark.slow
def test_what_ended_survives_kill_9(tmp_path: Path) -> None:
    """All but the last second: runs, requests, reports; with no daemon, and with the next one."""
    with Daemons(tmp_path) as daemons:
        home = daemons.home("A", settings(slots=2))
        (node,) = daemons.start("A")
        ask(node.port, 6, "nightly")
        before = runs(home)["nightly"]
        until(lambda: (home / FILE).exists() and Past(home / FILE).count(0.0) == 6, "it is written")
        node.kill()

        done = here("report", "--run", "nightly", "--home", home)
        assert (done.returncode, done.stderr.count("\n")) == (0, 1)
        assert "No daemon is running" in done.stderr
        assert "6 requests (6 done)" in done.stdout

        (node,) = daemons.start("A")
        until(lambda: _is_reported(home, "nightly"), "the next daemon makes the report that was missing")
        after = runs(home)["nightly"]
        assert (after.requests, after.makespan_s, after.outcomes) == (6, before.makespan_s, {"done": 6})
        report = get_report(home, "nightly")
        assert report.run is not None
        assert (report.run.efficiency, report.run.bound_waves) == (after.efficiency, after.bound_waves)
        assert {one.outcome for one in report.records} == {"done"}
        told = get_explanation(home, "last")
        assert (told.run, told.outcome, told.names[node.id]) == ("nightly", "done", "A")
        assert told.attempts[0].candidates
        assert get_explanation(home, told.request[:8]).request == told.request
        ask(node.port, 1, "second")
        assert list(runs(home)) == ["second", "nightly"]


def _is_reported(home: Path, name: str) -> bool:
    found = runs(home).get(name)
    return found is not None and found.efficiency is not None


@contextmanager
def on_a_small_disk(directory: Path) -> Iterator[Path]:
    """A daemon whose home is a disk of a mebibyte; yields the home as it is seen from here."""
    unshare = shutil.which("unshare")
    tried = [unshare or "unshare", "-Urm", "mount", "-t", "tmpfs", "none", str(directory)]
    if unshare is None or subprocess.run(tried, capture_output=True).returncode:
        pytest.skip("this kernel lets nobody mount a disk of his own (unshare -Urm)")
    home, config = directory / "home", directory / "config.toml"
    home.mkdir(mode=0o700)
    config.write_text(settings(slots=4))
    script = 'mount -t tmpfs -o size=1m,mode=700 none "$0" && cp "$1" "$0" && shift && exec "$@"'
    command = ["unshare", "-Urm", "sh", "-c", script, str(home), str(config), *up_command(home)]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=node_environment()
        )
    try:
        there = Path(f"/proc/{process.pid}/root{home}")
        until(partial(_answers, there), "it starts")
        yield there
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20.0)


def kept(home: Path) -> int:
    """How many requests are on such a disk, as who lives there reads it: SQLite resolves names out of it."""
    pid = home.parts[2]
    there = Path("/", *home.parts[4:])
    command = [sys.executable, "-m", "pairproxy", "report", "--format", "jsonl", "--home", str(there)]
    enter = ["nsenter", "-t", pid, "-U", "-m", "--preserve-credentials", *command]
    done = subprocess.run(enter, capture_output=True, text=True, timeout=30, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return done.stdout.count('"kind":"request"')


def _answers(home: Path) -> bool:
    try:
        return bool(get_status(home))
    except (NoDaemon, OSError):
        return False


@pytest.mark.slow
def test_a_full_disk_harms_no_request_and_history_goes_on_by_itself(tmp_path: Path) -> None:
    """It says so in the status, once in the log, and in GET /runs; what ended meanwhile is written later."""
    with on_a_small_disk(tmp_path) as home:
        port = get_status(home).nodes[0].engines[0].port
        assert port is not None
        ask(port, 4, "before")
        until(lambda: (home / FILE).exists() and kept(home) == 4, "it is written")
        filler = os.open(home / "filler", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            while os.write(filler, b"x" * 4096):
                pass
        except OSError:
            pass
        finally:
            os.close(filler)
        for number in range(6):
            ask(port, 40, f"meanwhile{number}")
        until(lambda: get_status(home).history_problem, "it says so")
        told = get_runs(home, 0.0, 99)
        assert told.problem is not None
        assert "is full" in told.problem
        assert {one.run for one in told.runs} == {"before", *(f"meanwhile{number}" for number in range(6))}
        assert kept(home) < 244
        (home / "filler").unlink()
        until(lambda: get_status(home).history_problem is None, "it goes on", 60.0)
        until(lambda: kept(home) == 244, "all of it is written")
        log = (tmp_path / "log").read_text()
        assert log.count("is full: history is not written") == 1
        assert log.count("is written again.") == 1


@pytest.mark.slow
def test_others_read_while_it_writes(tmp_path: Path) -> None:
    """Whole rows, more each time; nobody is held up."""
    with Daemons(tmp_path) as daemons:
        home = daemons.home("A", settings(slots=8))
        (node,) = daemons.start("A")
        seen = [0]
        for number in range(8):
            ask(node.port, 20, f"job{number}")
            if number == 0:
                until((home / FILE).exists, "it is there")
            done = here("report", "--format", "jsonl", "--home", home)
            assert (done.returncode, done.stderr) == (0, "")
            seen.append(done.stdout.count('"kind":"request"'))
        assert seen == sorted(seen)
        until(lambda: Past(home / FILE).count(0.0) == 160, "all of it is there")
        assert node.status().history_problem is None


def test_history_of_no_days_keeps_nothing(tmp_path: Path) -> None:
    """Runs in memory are told all the same."""
    with Daemons(tmp_path) as daemons:
        home = daemons.home("A", settings(history={"keep_days": 0}))
        (node,) = daemons.start("A")
        ask(node.port, 2, "nightly")
        assert list(runs(home)) == ["nightly"]
        assert not (home / FILE).exists()
        assert node.stop() == 0
        assert not (home / FILE).exists()

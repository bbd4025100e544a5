import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pairproxy.cli.bench.__main__ import app
from pairproxy.cli.bench.budget import command
from pairproxy.cli.bench.budget.command import CANNOT, MISSED
from pairproxy.cli.bench.budget.limits import BUDGETS
from pairproxy.cli.bench.budget.measuring import what_is_missing

WASTEFUL = Path(__file__).parent / "wasteful_daemon.py"


def test_where_nothing_can_be_measured_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an exit status of its own, so that CI does not take it for a missed limit."""
    monkeypatch.setattr(command, "what_is_missing", lambda: "This needs Linux.")
    shown = CliRunner().invoke(app, ["budget"])
    assert (shown.exit_code, shown.output) == (CANNOT, "This needs Linux.\n")


def test_a_daemon_that_is_no_file_is_wrong_usage(tmp_path: Path) -> None:
    """With what to name in its place."""
    shown = CliRunner().invoke(app, ["budget", "--daemon", str(tmp_path / "nowhere.py")])
    assert shown.exit_code == 2
    assert "Invalid value for --daemon" in shown.output
    assert "name a Python script" in shown.output


@pytest.mark.slow
@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
def test_a_path_that_is_twice_as_slow_fails() -> None:
    """A daemon that burns as much again as it needs: exit status 1, and what to do."""
    shown = CliRunner().invoke(app, ["budget", "--daemon", str(WASTEFUL), "--rounds", "3", "--json"])
    assert shown.exit_code == 1, shown.output
    assert MISSED in shown.stderr
    assert "scripts/bench profile" in MISSED
    rows = json.loads(shown.stdout)["rows"]
    assert len(rows) == len(BUDGETS)
    assert any(not row["is_met"] for row in rows if row["unit"])


@pytest.mark.slow
@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
def test_a_daemon_that_does_not_start_is_no_missed_limit(tmp_path: Path) -> None:
    """Its last words are told."""
    program = tmp_path / "broken.py"
    program.write_text("raise SystemExit('out of order')")
    shown = CliRunner().invoke(app, ["budget", "--daemon", str(program)])
    assert (shown.exit_code, "out of order" in shown.output) == (CANNOT, True)

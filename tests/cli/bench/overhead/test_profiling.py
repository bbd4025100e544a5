from pathlib import Path

import pytest
from typer.testing import CliRunner

from pairproxy.cli.bench.__main__ import app
from pairproxy.cli.bench.overhead.processes import what_is_missing


def test_another_workload_is_refused() -> None:
    """With the names of ours."""
    shown = CliRunner().invoke(app, ["profile", "json-65"], env={"COLUMNS": "300"})
    assert shown.exit_code == 2
    assert "'json-65' is none of json-1" in shown.output


@pytest.mark.slow
@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
def test_a_daemon_under_load_is_drawn() -> None:
    """Ten lines with their parts, and a graph in which the daemon's own functions stand."""
    shown = CliRunner().invoke(app, ["profile", "json-64", "--seconds", "2"])
    if "ptrace_scope" in shown.output:
        pytest.skip("the kernel lets nobody look at other processes")
    assert shown.exit_code == 0, shown.output
    lines = [line for line in shown.output.splitlines() if line.lstrip()[:1].isdigit()]
    assert len(lines) == 10
    graph = Path(shown.output.splitlines()[-1].removeprefix("Flame graph: "))
    assert "pairproxy/dispatcher.py" in graph.read_text()

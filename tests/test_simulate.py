"""scripts/simulate as a person starts it; the experiments themselves are tested in tests/core/experiments."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
VENV = ROOT / ".venv"

pytestmark = pytest.mark.skipif(Path(sys.prefix) != VENV, reason="scripts/simulate would install into .venv")


def simulate(*options: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    line = [sys.executable, "scripts/simulate", "--workers", "1", *options]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_a_table_has_target_value_and_verdict() -> None:
    """Of the experiment that was asked for, and the same twice."""
    first, second = (simulate("--only", "e15", "--seeds", "2") for _ in range(2))
    assert (first.returncode, first.stdout) == (0, second.stdout)
    assert "E15 one chain, one replica, at a peer  [2 seeds]" in first.stdout
    assert "mean to_direct <= 1.01" in first.stdout
    assert "2 targets met, 0 missed, 0 not run." in first.stdout
    assert "2 of 2" in first.stderr


def test_the_table_is_json_too() -> None:
    """For other programs."""
    rows = json.loads(simulate("--only", "E2", "--seeds", "1", "--json").stdout)
    assert {row["experiment"] for row in rows} == {"E2"}
    assert {"case", "target", "value", "verdict", "samples", "is_hard"} <= set(rows[0])


@pytest.mark.slow
def test_a_missing_trace_is_counted_and_its_case_is_not_run(tmp_path: Path) -> None:
    """It is said where it was looked for."""
    done = simulate("--only", "E17", "--seeds", "1", "--traces", str(tmp_path))
    assert done.returncode == 0
    assert f"4 of 4 traces are not in {tmp_path}" in done.stderr
    assert "not run" in done.stdout


@pytest.mark.slow
def test_the_gate_fails_when_a_burst_is_slower_than_the_best_node() -> None:
    """As a policy that counts makes it; without the gate it is only shown."""
    asked = ("--only", "E2", "--seeds", "5", "--policy", "least-busy")
    shown, gated = simulate(*asked), simulate(*asked, "--gate")
    assert (shown.returncode, gated.returncode) == (0, 1)
    assert "MISSED" in shown.stdout
    assert shown.stdout == gated.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--only", "E99"), "no experiment E99"), (("--policy", "best"), "no policy 'best'")],
)
def test_what_does_not_exist_is_said_with_what_does(options: tuple[str, ...], said: str) -> None:
    """In one sentence."""
    done = simulate(*options)
    assert done.returncode == 1
    assert f"There is {said}" in done.stderr
    assert "There are:" in done.stderr

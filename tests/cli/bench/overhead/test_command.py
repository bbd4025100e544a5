import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import typer
from typer.testing import CliRunner

from pairproxy.cli.bench.__main__ import app
from pairproxy.cli.bench.overhead import building, command
from pairproxy.cli.bench.overhead.command import CANNOT, chosen
from pairproxy.cli.bench.overhead.document import Document, to_json
from pairproxy.cli.bench.overhead.processes import what_is_missing

PATIENCE_S = 30.0  # for a daemon to be up, or everything to be gone


def test_only_what_is_named_is_measured() -> None:
    """Targets, workloads, or both; other routers only on request or by name."""
    plan = chosen("nginx,json-1", False, 1, 1.0)
    assert ([one.name for one in plan.targets], [case.name for case in plan.cases]) == (["nginx"], ["json-1"])
    assert not any(one.is_router for one in chosen("", False, 1, 1.0).targets)
    assert any(one.is_router for one in chosen("json-1", True, 1, 1.0).targets)
    assert [one.name for one in chosen("litellm", False, 1, 1.0).targets] == ["litellm"]
    with pytest.raises(typer.BadParameter, match="ngnix: not one of direct"):
        chosen("ngnix", False, 1, 1.0)


def test_an_earlier_result_is_shown_again(document: Document, tmp_path: Path) -> None:
    """For people, for machines and as Markdown; a missed must is the exit status."""
    earlier = tmp_path / "earlier.json"
    earlier.write_text(to_json(document))
    shown = CliRunner().invoke(app, ["overhead", "--from", str(earlier)])
    assert (shown.exit_code, "json-64: small JSON" in shown.output) == (0, True)
    told = CliRunner().invoke(app, ["overhead", "--from", str(earlier), "--json"])
    assert json.loads(told.output)["rounds"] == 3
    assert "**json-64**" in CliRunner().invoke(app, ["overhead", "--from", str(earlier), "--markdown"]).output
    earlier.write_text(to_json(document).replace('"peak_mb": 60.0', '"peak_mb": 90.0'))
    missed = CliRunner().invoke(app, ["overhead", "--from", str(earlier)])
    assert (missed.exit_code, "MISSED" in missed.output) == (1, True)
    assert CliRunner().invoke(app, ["overhead", "--from", str(earlier), "--no-gate"]).exit_code == 0


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[1]", b"\xff"])
def test_what_is_no_earlier_result_is_told_in_a_sentence(tmp_path: Path, content: bytes | None) -> None:
    """A file that is not there, or is another."""
    earlier = tmp_path / "earlier.json"
    if content is not None:
        earlier.write_bytes(content)
    told = CliRunner().invoke(app, ["overhead", "--from", str(earlier)])
    assert told.exit_code == 2
    assert "Invalid value for --from" in told.output
    assert "Traceback" not in told.output


def test_where_nothing_can_be_measured_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence, and an exit status of its own."""
    monkeypatch.setattr(command, "what_is_missing", lambda: "This needs two cores.")
    shown = CliRunner().invoke(app, ["overhead"])
    assert (shown.exit_code, shown.output) == (CANNOT, "This needs two cores.\n")


@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same exit status, and nothing is started."""
    monkeypatch.setenv("PAIRPROXY_CACHE", str(tmp_path))
    monkeypatch.setattr(building, "COMPILERS", ("no-such-compiler",))
    shown = CliRunner().invoke(app, ["overhead", "--only", "direct,json-1"])
    assert (shown.exit_code, "apt install gcc" in shown.output) == (CANNOT, True)


def test_what_is_measured_without_being_compiled_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the reason, and only where something of ours is measured."""

    async def why(cache: Path) -> str:
        return "There is no C compiler."

    monkeypatch.setattr(command, "why_not_compiled", why)
    assert command._compiled(chosen("nginx,json-1", False, 1, 1.0)) is None
    assert command._compiled(chosen("pairproxy,json-1", False, 1, 1.0)) == "There is no C compiler."
    assert "There is no C compiler. So pairproxy is measured" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
def test_after_ctrl_c_nothing_is_left() -> None:
    """Upstream, daemon and load generator end with the bench."""
    line = [
        sys.executable,
        "-m",
        "pairproxy.cli.bench",
        "overhead",
        "--only",
        "pairproxy-python,paced-512",
        "--seconds",
        "60",
    ]
    with subprocess.Popen(line, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as bench:
        root, until = psutil.Process(bench.pid), time.monotonic() + PATIENCE_S
        children: list[psutil.Process] = []
        while len(children) < 3 and time.monotonic() < until:
            children = root.children(recursive=True)
            time.sleep(0.1)
        os.kill(bench.pid, signal.SIGINT)
        assert bench.wait(PATIENCE_S) != 0
    assert len(children) == 3
    assert psutil.wait_procs(children, timeout=PATIENCE_S)[1] == []

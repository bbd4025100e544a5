import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from pairproxy.cli.demo.job import Answer
from pairproxy.cli.demo.legs import Result
from pairproxy.cli.demo.show import Screen, to_json
from tests.cli.test_progress import Terminal


def test_the_json_has_what_was_promised(result: Result) -> None:
    """The keys of the contract, with numbers that agree with each other."""
    document = json.loads(to_json(result))
    promised = (
        "nodes", "requests", "discovered_by", "makespan_alone_s", "makespan_together_s", "speedup",
        "bound_waves", "efficiency", "per_node",
    )  # fmt: skip
    assert [key for key in promised if key not in document] == []
    assert (document["nodes"], document["requests"], document["discovered_by"]) == (2, 5, "mdns")
    ratio = document["makespan_alone_s"] / document["makespan_together_s"]
    assert document["speedup"] == pytest.approx(ratio)
    assert document["bound_waves"] == pytest.approx(5 / 3)
    assert 0.0 < document["efficiency"] <= 1.0
    assert {name: tally["requests"] > 0 for name, tally in document["per_node"].items()} == {
        "A": True,
        "B": True,
    }
    assert len(document["replies"]) == 5
    assert all(reply["text"].strip() for reply in document["replies"])


def test_a_speedup_that_beats_the_waves_bound_says_why(result: Result) -> None:
    """No efficiency above 1: it stands against the provable bound, and a sentence gives the reason."""
    document = json.loads(to_json(result))
    assert document["efficiency_against"] == "provable"  # these nodes are not equal
    assert "not equal" in document["why"]
    assert document["bound_provable"] >= document["speedup"] * 0.999


def test_people_get_the_same_in_lines_that_fit(
    result: Result, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row per node, the speedup next to its bound, one line of text per sub-agent; no line is too long."""
    monkeypatch.setenv("COLUMNS", "80")
    Screen(is_quiet=False).report(result)
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert [line.split()[0] for line in lines[1:3]] == ["A", "B"]
    found = result.comparison
    assert any(f"speedup {found.speedup:.2f}, measured" in line for line in lines)
    assert any("Waves bound 5/ceil(5/2) = 1.67" in line for line in lines)
    agents = [line for line in lines if line.startswith("sub-agent")]
    assert len(agents) == 5
    assert all(answer.text.split()[0] in line for answer, line in zip(result.answers, agents, strict=True))


def test_a_reply_cannot_write_on_the_terminal(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    """Markup, newlines and control characters of a model's text come out as harmless text."""
    answer = Answer("r", "ollama", "[bold]hi[/bold]\n\x1b[2Jgone", 1.0)
    Screen(is_quiet=False).report(dataclasses.replace(result, answers=(answer,)))
    line = capsys.readouterr().out.splitlines()[-1]
    assert "[bold]hi[/bold]" in line
    assert "\x1b" not in line


def test_a_terminal_sees_the_work_and_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars grow while a leg runs; closing in its middle shows the cursor again."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(shutil, "which", lambda name, path=None: name if path is None else None)
    screen = Screen(is_quiet=False)
    screen.starting(2)
    screen.started(Path("a home"), "http://127.0.0.1:7/")
    screen.leg(1, 3, is_alone=True, requests=2)
    screen.tokens(1, 10)
    screen.close()
    drawn = terminal.getvalue()
    assert "starting 2 nodes" in drawn
    assert "watch them: pairproxy status --watch --home 'a home'" in drawn.replace('"', "'")
    assert "or: http://127.0.0.1:7/" in drawn
    assert "round 1 of 3, on node A alone" in drawn
    assert "##### 10 tokens" in " ".join(drawn.split())
    assert drawn.rfind("\x1b[?25h") > drawn.rfind("\x1b[?25l")


@pytest.mark.parametrize("is_beside", [True, False])
def test_how_to_watch_can_be_typed_where_the_program_is_on_no_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_beside: bool
) -> None:
    """As in a clone of which only the demo ran: the command of its .venv, or of its interpreter."""
    program = tmp_path / ("pairproxy.exe" if os.name == "nt" else "pairproxy")
    if is_beside:
        program.touch(mode=0o700)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    Screen(is_quiet=False).started(tmp_path, "http://127.0.0.1:7/")
    told = terminal.getvalue().replace('"', "").replace("'", "")  # in one line, to be copied as one
    wanted = str(program) if is_beside else f"{tmp_path / 'python'} -m pairproxy"
    assert f"watch them: {wanted} status --watch --home {tmp_path}\n" in told


def test_a_quiet_screen_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --json, standard error stays empty too, also on a terminal."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    screen = Screen(is_quiet=True)
    screen.starting(2)
    screen.started(Path(), "http://127.0.0.1:7/")
    screen.leg(1, 1, is_alone=False, requests=1)
    screen.tokens(0, 5)
    screen.leg_done(1.0)
    screen.close()
    assert terminal.getvalue() == ""

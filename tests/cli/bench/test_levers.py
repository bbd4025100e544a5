from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from pairproxy.cli.bench import levers
from pairproxy.cli.bench.levers import recorded, show, simulated, small_enough
from pairproxy.core.advice.levers import Ratio
from pairproxy.core.errors import PairproxyError
from tests.core.advice.looking import burst, look, node
from tests.support.command import here, sentence
from tests.support.daemons import Node


def test_a_recorded_run_is_measured_without_a_request(live: list[Node]) -> None:
    """Said to be simulated; every lever has its row, and each sum its verdict."""
    before = live[0].status().requests_done
    done = here("bench", "--levers", "--home", live[0].home, "--run", "nightly", "--rounds", "2")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "4 requests of the run nightly, simulated"
    text = " ".join(done.stdout.split())
    for name in ("none", "routing", "prefix affinity", "slots", "routing and prefix affinity: ", "all: "):
        assert name in text
    assert done.stderr.count("simulated") == 2
    assert live[0].status().requests_done == before


def test_json_is_one_document(live: list[Node]) -> None:
    """With the ratios of every lever and the verdicts in words."""
    done = here("bench", "--levers", "--home", live[0].home, "--run", "nightly", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = msgspec.json.decode(done.stdout)
    assert (found["requests"], found["is_simulated"], found["rounds"]) == (4, True, 3)
    assert found["levers"][0]["name"] == "none"
    assert set(found["verdicts"]) == set(found["sums"]) == {"routing and prefix affinity", "all"}


def test_a_run_that_is_not_there_is_a_sentence(live: list[Node]) -> None:
    """With what to do."""
    done = here("bench", "--levers", "--home", live[0].home, "--run", "never")
    assert done.returncode == 1
    assert "no run of this name" in sentence(done)


def test_a_long_run_is_cut_and_it_is_said(live: list[Node]) -> None:
    """The first requests speak for it."""
    found = recorded(live[0].home, "nightly", 3)
    assert (len(found.requests), found.left_out) == (3, 1)
    notes = simulated(found, 1, lambda line: None).notes
    assert any(note.startswith("1 request left out") for note in notes)


def test_a_run_on_many_nodes_is_cut_to_what_takes_seconds() -> None:
    """And who waits is told how long."""
    nodes = [node(f"n{index}", 1) for index in range(10)]
    told = look([*nodes[:-1], node("a")], burst(20)).recording
    assert small_enough(told) is not told
    assert len(small_enough(told).requests) == 20
    many = replace(told, requests=told.requests * 12)
    cut = small_enough(many)
    assert (len(cut.requests), cut.left_out) == (200, 40)
    lines: list[str] = []
    simulated(told, 1, lines.append)
    assert lines[0] == "simulating 1 round of 6: about 2 s"


def test_what_one_node_cannot_choose_is_said() -> None:
    """And engines of one slot are tried with two."""
    notes = " ".join(simulated(look([node("a")], burst(3)).recording, 1, lambda line: None).notes)
    assert "There is one node" in notes
    assert "2 on each engine, which have one now" in notes


def test_a_ratio_shows_its_range_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal rounds have none."""
    found = simulated(look([node("a"), node("b")], burst(6)).recording, 2, lambda line: None)
    wide = Console(width=200, color_system=None, highlight=False)
    monkeypatch.setattr(levers, "console", lambda: wide)
    with wide.capture() as capture:
        show(found, as_json=False)
    (row,) = (one for one in capture.get().splitlines() if one.startswith(" none"))
    assert "1.00" in row
    assert "(" not in row
    assert levers._told(Ratio(2.0, 1.5, 2.5)) == "2.00 (1.50-2.50)"


def test_without_a_daemon_it_says_how_to_start_one(tmp_path: Path) -> None:
    """Exit status 3."""
    done = here("bench", "--levers", "--home", tmp_path)
    assert done.returncode == 3


def test_a_damaged_recording_is_a_sentence() -> None:
    """Not a traceback."""
    told = look([node("a")], burst(2)).recording
    first, second = told.requests
    damaged = replace(told, requests=(first, replace(second, shared_with=5)))
    with pytest.raises(PairproxyError, match="does not come before it"):
        simulated(damaged, 1, lambda line: None)

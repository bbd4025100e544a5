from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from pairproxy.api.advice import Advice, AdviceReport
from pairproxy.cli.advise import show
from tests.support.asking import Asker
from tests.support.command import here, sentence
from tests.support.daemons import Daemons, Node, settings

NODE = "N" * 52


def printed(found: AdviceReport, width: int = 80) -> list[str]:
    """The lines on a terminal of so many columns."""
    out = Console(width=width, color_system=None, highlight=False)
    with out.capture() as capture:
        show(out, found)
    return capture.get().splitlines()


def test_a_run_of_the_daemon_is_advised_on(live: list[Node]) -> None:
    """What helps is numbered, what does not has a dash; it fits a screen."""
    done = here("advise", "--home", live[0].home, "--run", "nightly")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "Looked at 4 requests of the run nightly."
    assert any(line.startswith(("1  ", "*  ")) for line in lines[1:3])
    assert "Looked at, and no help here:" in lines
    assert len(lines) <= 24


def test_how_far_the_simulation_is_off_is_told_where_it_is_believed() -> None:
    """Else a sentence says why no gain is told."""
    line = Advice("more-slots", True, "More slots: do.", {"queue_s": 1.0}, 2.0, 0.2)
    head, how, _ = printed(AdviceReport(NODE, "job", 4, (line,), 0.021))
    assert head == "Looked at 4 requests of the run job."
    assert how == "What would be is simulated; the run as it was is met within 2.1%."
    bare = Advice("more-slots", True, "More slots: do.", {"queue_s": 1.0})
    lines = printed(AdviceReport(NODE, "job", 4, (bare,), 0.3, ("The simulation is off by 30%.",)))
    assert not any("met within" in one for one in lines)
    assert lines[-1] == "!  The simulation is off by 30%."


def test_json_is_the_document_of_the_admin_port(live: list[Node]) -> None:
    """And nothing else."""
    done = here("advise", "--home", live[0].home, "--run", "nightly", "--json")
    found = msgspec.json.decode(done.stdout, type=AdviceReport)
    assert (found.run, found.requests) == ("nightly", 4)
    assert all(one.numbers for one in found.advice)


def test_a_run_that_nobody_knows_is_a_sentence(live: list[Node]) -> None:
    """Exit status 1, and what to do."""
    done = here("advise", "--home", live[0].home, "--run", "never")
    assert done.returncode == 1
    assert "There is no run of this name" in sentence(done)


def test_without_a_daemon_it_says_how_to_start_one(tmp_path: Path) -> None:
    """Exit status 3."""
    done = here("advise", "--home", tmp_path)
    assert done.returncode == 3
    assert "pairproxy up" in sentence(done)


def test_before_the_first_request_it_says_what_to_do() -> None:
    """Not an empty screen."""
    (first, *more) = printed(AdviceReport(NODE, None, 0, ()))
    assert first.startswith("No request has ended since the daemon started")
    assert any("pairproxy status" in line for line in (first, *more))


def test_names_of_others_are_no_commands_of_the_terminal() -> None:
    """Nor markup: a node may call itself anything."""
    line = Advice("idle-nodes", True, "Idle nodes: \x1b[2J[red]ben[/red] is\npaired.", {"idle_slots": 1.0})
    lines = printed(AdviceReport(NODE, "x\x1b]0;title\x07", 1, (line,)))
    assert "\x1b" not in "".join(lines)
    assert lines[1] == "1  Idle nodes: [2J[red]ben[/red] is paired."


@pytest.mark.parametrize("width", [40, 80, 200])
def test_long_lines_are_broken_between_words(width: int) -> None:
    """And go on under their beginning."""
    line = Advice("prefill", False, "Faster reading: " + "word " * 60 + "end.", {"read_s": 1.0})
    lines = printed(AdviceReport(NODE, "job", 1, (line,)), width)
    body = [one for one in lines if "word" in one]
    assert all(len(one) <= width for one in body)
    assert body[0].startswith("-  Faster")
    assert all(one.startswith("   word") for one in body[1:])


@pytest.mark.slow
def test_a_paired_node_that_lacks_the_model_is_found(tmp_path: Path) -> None:
    """Two daemons, of which one has another model: what it would bring, and what to do."""
    with Daemons(tmp_path) as daemons:
        daemons.home("A", settings())
        daemons.home("B", settings(paced={"model": "other:1b"}))
        daemons.pair("A", "B")
        anna, _ = daemons.start("A", "B")
        daemons.until_connected()
        asker = Asker(anna.port, headers={"X-Pairproxy-Run": "job"})
        for reply in [asker.start(f"task {number}", tokens=20) for number in range(6)]:
            assert reply.result().is_whole
        done = here("advise", "--home", anna.home)
    (line,) = (one for one in done.stdout.split("\n1 ")[1].split("\n2 ") if "Idle nodes" in one)
    assert "B is paired and lacks paced:1b" in " ".join(line.split())
    assert "pairproxy models" in " ".join(line.split())

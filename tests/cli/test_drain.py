"""`pairproxy drain`, and the resume that follows, against real daemons."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from pairproxy.cli.drain import seconds
from tests.support.asking import Asker
from tests.support.command import here, sentence
from tests.support.daemons import Daemons, Node, settings, until


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


def slow_and_fast(daemons: Daemons, decode: float = 400.0) -> tuple[Node, Node]:
    """Daemon A is slow, its peer B is faster."""
    daemons.home("A", settings(paced={"decode": 10.0}))
    daemons.home("B", settings(paced={"decode": decode}))
    daemons.pair("A", "B")
    a, b = daemons.start("A", "B")
    daemons.until_connected()
    return a, b


def served_by(node: Node) -> str:
    """The node that serves a request at one."""
    return Asker(node.port).ask(tokens=2).headers["x-pairproxy-node"]


@pytest.mark.slow
def test_a_drained_node_serves_its_own_and_its_peer_goes_elsewhere(daemons: Daemons) -> None:
    """Until resume; also over a restart. Its peer knows why."""
    a, b = slow_and_fast(daemons)
    assert served_by(a) == b.id
    done = here("drain", "--home", b.home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == [
        "Drained: other machines get no slot here.",
        "Nothing of theirs runs here.",
    ]
    until(lambda: a.view_of(b).withheld == "drained", "A hears of it")
    assert served_by(a) == a.id
    assert served_by(b) == b.id
    assert b.stop() == 0
    (b,) = daemons.start("B")
    daemons.until_connected(a, b)
    assert b.status().offer.withheld == "drained", "a restart does not undo what a person wanted"
    assert a.view_of(b).withheld == "drained"
    done = here("resume", "--home", b.home)
    assert (done.returncode, done.stdout) == (0, "Other machines get slots here again.\n")
    until(lambda: a.view_of(b).withheld == "", "A hears of it")
    assert served_by(a) == b.id
    assert not (b.home / "drained.json").exists()


@pytest.mark.slow
def test_to_wait_is_to_see_the_work_of_others_end(daemons: Daemons) -> None:
    """It is finished whole, with progress, and the command returns when nothing of it runs."""
    a, b = slow_and_fast(daemons, decode=40.0)
    reply = Asker(a.port).start("go on", tokens=40)
    until(lambda: b.status().offer.guests, "it runs at B")
    done = here("drain", "--wait", "--home", b.home)
    assert done.returncode == 0
    assert done.stderr.splitlines() == ["1 request of other machines left"]
    assert "Nothing of theirs runs here." in done.stdout
    assert b.status().offer.guests == 0
    got = reply.result()
    assert (got.is_whole, len(got.lines())) == (True, 41)


@pytest.mark.slow
def test_a_drain_in_the_middle_of_a_burst_costs_no_request(daemons: Daemons) -> None:
    """What runs at the drained node ends there, what waits or is on its way goes elsewhere; all are whole."""
    a, b = slow_and_fast(daemons, decode=40.0)
    replies = [Asker(a.port).start(f"request {number}", tokens=10) for number in range(12)]
    until(lambda: b.status().offer.guests, "one of them runs at B")
    assert here("drain", "--wait", "--home", b.home).returncode == 0
    ended = b.status().requests_done
    got = [reply.result() for reply in replies]
    assert [(one.is_whole, len(one.lines())) for one in got] == [(True, 11)] * 12
    assert b.status().requests_done == ended, "nothing came after the drain"
    assert {one.headers["x-pairproxy-node"] for one in got} == {a.id, b.id}
    assert a.status().outcomes == {"done": 12}


@pytest.mark.slow
def test_who_stops_waiting_leaves_the_node_drained(daemons: Daemons) -> None:
    """Ctrl-C ends the command, not what it did; and without --wait it says how much is left."""
    a, b = slow_and_fast(daemons, decode=20.0)
    reply = Asker(a.port).start("go on", tokens=60)
    until(lambda: b.status().offer.guests, "it runs at B")
    line = [sys.executable, "-m", "pairproxy", "drain", "--wait", "--home", str(b.home)]
    waiting = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None
    assert waiting.stderr.readline() == "1 request of other machines left\n"
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=20)
    assert (waiting.returncode, "Traceback" in said) == (130, False), said
    assert b.status().offer.withheld == "drained"
    assert "1 request of theirs still runs." in here("drain", "--home", b.home).stdout
    assert reply.result().is_whole


@pytest.mark.slow
def test_a_drain_for_a_time_says_until_when_and_ends(daemons: Daemons) -> None:
    """As text and as JSON."""
    daemons.home("B", settings())
    (b,) = daemons.start("B")
    done = here("drain", "--for", "2h", "--home", b.home)
    assert re.match(r"Drained: other machines get no slot here until [\d-]{10} \d\d:\d\d\.\n", done.stdout)
    told = json.loads(here("drain", "--for", "1s", "--home", b.home, "--json").stdout)
    assert (told["node"], told["offer"]["withheld"], told["offer"]["guests"]) == (b.id, "drained", 0)
    assert told["offer"]["until_unix"] - time.time() <= 1.0
    until(lambda: b.status().offer.withheld == "", "it is over")
    again = json.loads(here("resume", "--home", b.home, "--json").stdout)
    assert again["offer"]["withheld"] == "", "to resume what is not drained is no fault"


@pytest.mark.parametrize("command", [("drain",), ("drain", "--wait"), ("drain", "--for", "2h")])
def test_without_a_daemon_nothing_is_done(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Exit status 3, and how to start one."""
    done = here(*command, "--home", tmp_path)
    assert done.returncode == 3
    assert "pairproxy up" in sentence(done)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "2", "h", "-1h", "2 hours", "1.5h", "0s", "2h later", "367d", "9" * 12])
def test_a_time_that_is_none_is_wrong_usage(text: str) -> None:
    """A number without a unit, a sign, a fraction; and more than a year."""
    with pytest.raises(typer.BadParameter):
        seconds(text)


def test_wrong_usage_is_told_before_a_daemon_is_asked(tmp_path: Path) -> None:
    """Exit status 2, with what can be written."""
    done = here("drain", "--for", "soon", "--home", tmp_path)
    assert done.returncode == 2
    assert "2h" in done.stderr


@pytest.mark.parametrize(
    ("text", "found"), [("90s", 90.0), ("30m", 1800.0), ("2h", 7200.0), ("1h30m", 5400.0), (" 7D ", 604800.0)]
)
def test_times_are_written_as_people_write_them(text: str, found: float) -> None:
    """Days to seconds."""
    assert seconds(text) == found

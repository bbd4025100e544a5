"""`pairproxy drain` against two real daemons."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from pairproxy.cli import drain
from tests.support.asking import Asker
from tests.support.command import here, sentence
from tests.support.daemons import Daemons, Node, settings, until

SLOW, FAST = {"decode": 10.0}, {"decode": 400.0}


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


def slow_and_fast(daemons: Daemons, decode: float = 400.0) -> tuple[Node, Node]:
    """Daemon A is slow, its peer B is fast."""
    daemons.home("A", settings(paced=SLOW))
    daemons.home("B", settings(paced={"decode": decode}))
    daemons.pair("A", "B")
    a, b = daemons.start("A", "B")
    daemons.until_connected()
    return a, b


def of_peer(node: Node, name: str) -> str:
    """Why a peer offers nothing, as a node knows it."""
    return next(one.withheld for one in node.status().nodes if one.name == name)


def test_a_drained_node_serves_its_own_and_its_peer_goes_elsewhere(daemons: Daemons) -> None:
    """Until resume; also over a restart. Its peer knows why."""
    a, b = slow_and_fast(daemons)
    assert Asker(a.port).ask(tokens=2).headers["x-pairproxy-node"] == "B"
    done = here("drain", "--home", b.home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == [
        "Drained: other machines get no slot here.", "Nothing of theirs runs here."
    ]  # fmt: skip
    until(lambda: of_peer(a, "B") == "drained", "A hears of it")
    assert Asker(a.port).ask(tokens=2).headers["x-pairproxy-node"] == "A"
    assert Asker(b.port).ask(tokens=2).headers["x-pairproxy-node"] == "B"
    daemons.stop("B")
    (b,) = daemons.start("B")
    daemons.until_connected()
    assert b.status().offer.withheld == "drained", "a restart does not undo what a person wanted"
    done = here("resume", "--home", b.home)
    assert (done.returncode, done.stdout) == (0, "Other machines get slots here again.\n")
    until(lambda: of_peer(a, "B") == "", "A hears of it")
    assert Asker(a.port).ask(tokens=2).headers["x-pairproxy-node"] == "B"
    assert not (b.home / "drained.json").exists()

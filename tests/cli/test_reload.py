import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.asking import Asker
from tests.support.command import here, sentence
from tests.support.daemons import Daemons, Node, settings, until

PACED = {"decode": 50.0}


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


def started(daemons: Daemons) -> Node:
    """Daemon A."""
    daemons.home("A", settings(paced=PACED))
    (node,) = daemons.start("A")
    return node


def rewrite(node: Node, text: str) -> None:
    """Put other settings into its home."""
    (node.home / "config.toml").write_text(text)


@pytest.mark.slow
def test_new_settings_are_in_force_and_a_running_reply_goes_on(daemons: Daemons) -> None:
    """What is set anew holds for the next request, what needs a restart is named, and nothing is dropped."""
    node = started(daemons)
    reply = Asker(node.port).start("go on", tokens=40)
    until(lambda: any(one.has_first_byte for one in node.status().running), "it streams")
    rewrite(
        node,
        '[node]\nname = "other"\n'
        + settings(
            paced=PACED, slots=2, routing={"policy": "least-busy"}, debug={"headers": False},
            log={"level": "debug", "format": "json"}, peers={"static": ["127.0.0.1:9"]},
        ),
    )  # fmt: skip
    done = here("reload", "--home", node.home)
    assert done.returncode == 0
    applied, late = done.stdout.splitlines()
    assert applied == (
        "In force now: node.name, peers.static, routing.policy, log.level, log.format, debug.headers"
    )
    assert late == "Changed, restart the daemon to apply: engines"
    status = node.status()
    assert (status.name, status.nodes[0].name, status.policy) == ("other", "other", "least-busy")
    assert "x-pairproxy-node" not in Asker(node.port).ask(tokens=1).headers
    got = reply.result()
    assert (got.is_whole, len(got.lines())) == (True, 41)
    again = json.loads(here("reload", "--home", node.home, "--json").stdout)
    assert (again["applied"], again["needs_restart"]) == ([], ["engines"])
    until(lambda: node.log.count('"message": "request ended"') == 2, "both requests are in the log, as JSON")


@pytest.mark.slow
def test_continuation_is_followed_without_a_restart(daemons: Daemons) -> None:
    """The engines that are there are asked then whether they go on with a text."""
    node = started(daemons)
    rewrite(node, settings(paced=PACED, routing={"continuation": True}))
    assert "routing.continuation" in here("reload", "--home", node.home).stdout.splitlines()[0]
    until(
        lambda: node.status().nodes[0].engines[0].replicas[0].continues, "the engine was seen to go on", 30.0
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signal on this system")
def test_hang_up_rereads_and_a_broken_file_changes_nothing(daemons: Daemons) -> None:
    """A daemon without a terminal goes on after SIGHUP; a mistyped key is named, and the old values stay."""
    node = started(daemons)
    rewrite(node, settings(paced=PACED, routing={"polcy": "least-busy"}))
    node.send(signal.SIGHUP)
    until(lambda: "Did you mean routing.policy?" in node.log, "the fault is told")
    done = here("reload", "--home", node.home)
    assert (done.returncode, "Did you mean routing.policy?" in sentence(done)) == (1, True)
    assert node.status().policy == "fastest-finish"
    rewrite(node, settings(paced=PACED, routing={"policy": "least-busy"}))
    node.send(signal.SIGHUP)
    until(lambda: node.status().policy == "least-busy", "the mended file is in force")


def test_without_a_daemon_there_is_nothing_to_reload(home: Path) -> None:
    """Exit status 3, and what to do."""
    done = here("reload", "--home", home)
    assert (done.returncode, "pairproxy up" in sentence(done)) == (3, True)

import json
from pathlib import Path

import msgspec
import pytest

from pairproxy.api.schema import Status
from pairproxy.cli.bench.here import find
from pairproxy.core.errors import PairproxyError
from tests.support.command import pairproxy, sentence
from tests.support.daemons import Node


def test_nothing_is_sent_that_nobody_agreed_to(live: list[Node]) -> None:
    """Without a terminal and without --yes: what would be sent, and how to agree to it."""
    before = live[0].status().requests_done
    done = pairproxy("bench", "--here", "--home", str(live[0].home))
    assert done.returncode == 1
    assert "6 requests" in sentence(done)
    assert "--yes" in sentence(done)
    assert live[0].status().requests_done == before


@pytest.mark.slow
def test_the_running_cluster_is_measured_with_its_own_model(live: list[Node]) -> None:
    """Alone and together through the daemon; shares and bounds come from its own records."""
    line = ("bench", "--here", "--yes", "--rounds", "1", "--requests", "4", "--json")
    done = pairproxy(*line, "--home", str(live[0].home))
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    found = document["comparison"]
    assert (document["model"], found["requests"], found["slots"]) == ("paced:1b", 4, 2)
    assert len(found["pieces_alone_s"]) == 4
    assert sum(one["requests"] for one in found["per_node"].values()) == 4
    assert 0 < found["efficiency"] <= 1


@pytest.mark.slow
def test_who_waits_sees_each_leg(live: list[Node]) -> None:
    """On standard error, so that standard output is the result alone."""
    line = ("bench", "--here", "--yes", "--rounds", "1", "--requests", "1")
    done = pairproxy(*line, "--home", str(live[0].home))
    alone, together = done.stderr.splitlines()
    assert alone.startswith("round 1 of 1, on this machine alone: 1 request in ")
    assert together.startswith("round 1 of 1, on all nodes: 1 request in ")


def test_more_than_a_few_requests_are_not_sent(live: list[Node]) -> None:
    """Said at once; not silently fewer."""
    done = pairproxy("bench", "--here", "--yes", "--requests", "33", "--home", str(live[0].home))
    assert done.returncode == 1
    assert "--requests 32 at most" in sentence(done)


def test_the_port_and_the_slots_are_those_of_the_model(live: list[Node]) -> None:
    """Every node that has it counts; what nobody here has is a sentence with what there is."""
    status = live[0].status()
    here = find(live[0].home, status, "paced:1b")
    assert (here.port, sum(here.slots.values())) == (live[0].port, 2)
    with pytest.raises(PairproxyError, match="Models here: paced:1b"):
        find(Path(), status, "other:7b")


def test_an_engine_without_a_port_is_a_sentence(live: list[Node]) -> None:
    """It says which setting gives it one."""
    status = live[0].status()
    nodes = tuple(
        msgspec.structs.replace(
            node, engines=tuple(msgspec.structs.replace(one, port=None) for one in node.engines)
        )
        for node in status.nodes
    )
    changed: Status = msgspec.structs.replace(status, nodes=nodes)
    with pytest.raises(PairproxyError, match=r"engines\.listen"):
        find(Path(), changed, None)

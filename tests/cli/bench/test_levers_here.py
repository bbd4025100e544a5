import json

import pytest

from pairproxy.cli.bench.asking import Reply
from pairproxy.cli.bench.here import find
from pairproxy.cli.bench.levers_here import legs, trial_of
from tests.support.command import pairproxy, sentence
from tests.support.daemons import Node


def test_nothing_is_sent_that_nobody_agreed_to(live: list[Node]) -> None:
    """What would be sent is said: how much, how often, that it is made up."""
    before = live[0].status().requests_done
    done = pairproxy("bench", "--levers", "--here", "--run", "nightly", "--home", str(live[0].home))
    assert done.returncode == 1
    assert "Send 4 requests" in sentence(done)
    assert "made up" in sentence(done)
    assert "12 times" in sentence(done)
    assert "--yes" in sentence(done)
    assert live[0].status().requests_done == before


@pytest.mark.slow
def test_routing_and_slots_are_measured_on_what_runs_here(live: list[Node]) -> None:
    """Two nodes of one slot: to use both is twice as fast, to send more at once gains nothing."""
    line = ("bench", "--levers", "--here", "--yes", "--run", "nightly", "--rounds", "1", "--json")
    done = pairproxy(*line, "--home", str(live[0].home))
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert not found["is_simulated"]
    by_name = {one["name"]: one for one in found["levers"]}
    assert list(by_name) == ["none", "routing", "slots", "routing and slots"]
    assert by_name["routing"]["run"]["value"] > 1.2
    assert "Prefix affinity cannot be switched off" in " ".join(found["notes"])


def test_a_leg_is_alone_or_on_all_nodes_few_or_all_at_once(live: list[Node]) -> None:
    """Of two nodes."""
    here = find(live[0].home, live[0].status(), None)
    assert [(one.is_alone, one.at_once) for one in legs(here)] == [
        (True, 1), (False, 2), (True, None), (False, None),
    ]  # fmt: skip


def test_what_a_client_saw_is_reckoned_by_its_clock() -> None:
    """Waiting for its own turn counts: it wanted to ask."""
    replies = [
        Reply(0.0, 0.5, 2.0, "a", 1, 100, 50, 10, ""),
        Reply(0.0, 2.5, 4.0, "a", 1, 100, 0, 10, ""),
    ]
    trial = trial_of(replies)
    assert (trial.makespan_s, trial.latency_s, trial.ttft_s, trial.hit_rate) == (4.0, 3.0, 1.5, 0.25)

"""Runs that stand at their bound, each for another reason, and what is said of it."""

from dataclasses import replace
from random import Random

import pytest

from pairproxy.core.accounting.verdict import shown
from pairproxy.core.experiments.rigs import at_speeds
from pairproxy.core.models import EngineId, ModelName, Rates
from pairproxy.core.workload import MODEL, SimEngine, SimNode, SimRequest
from pairproxy.core.workloads.chains import played, sub_agent
from tests.core.accounting.judged import HOME, PIECE_S, RATES, Judged, judged, nodes, piece

NO_BATCHING = Rates(prefill=4000.0, decode=40.0, beta=0.0)


def at_its_bound(run: Judged, cause: str) -> tuple[str, str]:
    """The two sentences of a verdict that is about no loss."""
    assert (run.verdict.cause, run.verdict.loss) == (cause, None)
    return run.verdict.limited_by, run.verdict.change


def test_five_equal_requests_on_three_nodes_are_limited_by_waves() -> None:
    """Two waves, and how many slots would make it one."""
    run = judged(nodes("abc"), [piece() for _ in range(5)])
    limited, change = at_its_bound(run, "waves")
    assert (
        limited
        == "5 requests on 3 slots go in 2 waves of about 2.90 s each, and the last one fills 2 of them."
    )
    assert change.startswith(
        "2 more slots, on another paired machine or by `engines.slots`, would make it 1 wave"
    )
    assert f"about {PIECE_S:.2f} s instead of {run.report.makespan_s:.2f} s" in change


def test_what_waves_promise_is_what_more_slots_bring() -> None:
    """The same five on the five slots that the sentence asks for take what it said, within 5 %."""
    run = judged(nodes("abcde"), [piece() for _ in range(5)])
    assert run.report.makespan_s == pytest.approx(PIECE_S, rel=0.05)


def test_one_request_is_one_request() -> None:
    """Nothing to share, however many nodes there are."""
    limited, change = at_its_bound(judged(nodes("ab"), [piece()]), "single-request")
    assert limited == "It was a single request, and took 2.90 s: one request runs on one node."
    assert change.startswith("More machines cannot help it")


def test_a_chain_is_limited_by_its_steps() -> None:
    """Each prompt goes on with the last one; the tools between them are told."""
    steps = [
        replace(piece(), after=number - 1 if number else None, think_s=0.5, chain="agent", run="job")
        for number in range(8)
    ]
    run = judged(nodes("ab"), steps)
    assert run.verdict.cause == "chain"
    limited = run.verdict.limited_by
    assert limited.startswith("A chain of 8 steps, each of which waits for the one before, took ")
    assert "tools 3.50 s in all" in limited
    assert run.verdict.change.startswith("More machines cannot help;")


def test_a_client_that_asks_one_after_the_other_is_told_so() -> None:
    """No chain is known, but never were two requests open."""
    loop = [replace(piece(), after=number - 1 if number else None, think_s=0.2) for number in range(9)]
    limited, change = at_its_bound(judged(nodes("ab"), loop), "one-at-a-time")
    assert limited.startswith("Its 9 requests came one at a time")
    assert "never more than 1 of 2 slots had work" in limited
    assert change.startswith("Ask up to 2 requests at once")


def test_one_long_request_among_short_ones_is_named() -> None:
    """With its node and its part of the run."""
    run = judged(nodes("abc", 2), [*(piece(60) for _ in range(8)), piece(2500)])
    limited, change = at_its_bound(run, "one-long-request")
    assert limited.startswith("One request (r8 on ")
    assert "half of all took " in limited
    assert change.startswith("More machines cannot help. Cut that request into parts")


def test_fewer_requests_than_slots_are_told() -> None:
    """None waited, and more slots would change nothing."""
    cluster = nodes("ab", 4, NO_BATCHING)
    limited, change = at_its_bound(judged(cluster, [piece() for _ in range(3)]), "few-requests")
    assert limited.startswith("There were fewer requests (3) than slots (8): none waited")
    assert "cutting the work into 8 requests or more" in change


def test_clients_that_ask_late_are_told() -> None:
    """Over how long, how many at once, and how much of the slots' time was used."""
    run = judged(nodes("abc", 2), [piece(at=1.5 * number) for number in range(20)])
    limited, change = at_its_bound(run, "arrivals")
    assert limited.startswith("The clients asked over 28.5 of ")
    assert "at most 2 requests at once for 6 slots" in limited
    assert change.startswith(f"The nodes had room, {run.occupancy.busy:.0%} of their slots' time was used")


def test_a_long_last_request_that_came_late_is_told_where_nothing_else_is() -> None:
    """Slots stood free: the run is as long as its last request was late and long."""
    run = judged(nodes("abc"), [*(piece(at=3.0) for _ in range(6)), piece(at=0.0), piece(200, at=7.5)])
    limited, change = at_its_bound(run, "arrivals")
    assert limited.startswith("Only ")
    assert "(r7 on " in limited
    assert "came at 7.50 s" in limited
    assert change.startswith("More machines cannot help;")


def test_two_bursts_with_a_pause_are_the_clients_doing() -> None:
    """The slots stood free between them: the second came late."""
    run = judged(nodes("ab"), [*(piece() for _ in range(8)), *(piece(at=30.0) for _ in range(8))])
    limited, _ = at_its_bound(run, "arrivals")
    assert "came at 30.0 s" in limited


def test_agents_whose_tools_run_are_told() -> None:
    """Six of them begin one after another, on slots that wait for their tools."""
    chains = [replace(sub_agent(Random(n), 1 + 100_000 * n), begins_s=60.0 * n) for n in range(6)]
    run = judged(nodes("ab", 4, Rates(8000.0, 80.0, 0.05)), played(chains, [HOME]))
    assert run.verdict.cause == "tools"
    assert f"tools {shown(run.report.tool_s)} s in 6 chains" in run.verdict.limited_by
    assert run.verdict.change.startswith("Quicker tools, or more agents side by side")


def test_the_only_node_with_the_model_is_named() -> None:
    """With the model, and what a second node would bring."""
    run = judged(nodes("a", 2, NO_BATCHING), [piece() for _ in range(40)])
    limited, change = at_its_bound(run, "single-node")
    assert limited.startswith("Only one node, laptop, has m:latest, and its 2 slots were busy for ")
    assert f"about {run.report.makespan_s / 2:.1f} s" in change


def test_what_a_second_node_promises_is_what_it_brings() -> None:
    """Forty on two such nodes take half, within 5 %."""
    one = judged(nodes("a", 2, NO_BATCHING), [piece() for _ in range(40)]).report.makespan_s
    two = judged(nodes("ab", 2, NO_BATCHING), [piece() for _ in range(40)]).report.makespan_s
    assert two == pytest.approx(one / 2, rel=0.05)


def test_a_node_that_does_nearly_all_is_named() -> None:
    """At 4 : 1 no schedule gains more than a quarter."""
    cluster = at_speeds(40.0, 10.0)
    run = judged(cluster, [replace(piece(), origin=cluster[0].node) for _ in range(9)])
    limited, change = at_its_bound(run, "unequal-nodes")
    assert limited.startswith("node0 does 80% of what all 2 nodes can do together")
    assert "1.25 times as fast as the best node alone" in limited
    assert change.startswith("Only a node of about the speed of node0")


def test_a_model_that_only_one_node_has_is_named() -> None:
    """Sixteen requests for it wait there while the other node is idle."""
    two = ModelName("two:latest")
    first = SimNode(HOME, (SimEngine(EngineId("gpu"), 2, {MODEL: RATES}),))
    second = SimNode.of("b", 2, RATES)
    second = replace(second, engines=(SimEngine(EngineId("gpu"), 2, {MODEL: RATES, two: RATES}),))
    asked = [SimRequest(0.0, HOME, 800, 100, model=two) for _ in range(16)] + [piece() for _ in range(4)]
    run = judged([first, second], asked)
    assert run.verdict.cause == "one-replica"
    assert run.verdict.limited_by.startswith("two:latest ran on b only, and its 16 requests waited ")
    assert (
        run.verdict.change
        == "Put two:latest on another paired machine: `pairproxy models` shows who has what."
    )


def test_work_that_keeps_all_slots_busy_is_the_limit_itself() -> None:
    """How busy, how many waited, and what half as many slots more would bring."""
    run = judged(nodes("abc", 2, NO_BATCHING), [piece() for _ in range(60)])
    limited, change = at_its_bound(run, "slots")
    assert limited.startswith("The work itself: 60 requests kept 6 slots on 3 nodes busy for ")
    assert f", with up to {run.occupancy.most_waiting} waiting" in limited
    assert f"3 more like these would need about {run.report.makespan_s * 6 / 9:.1f} s" in change


def test_work_that_is_mostly_reading_is_told_as_such() -> None:
    """Long prompts and short replies: a cache would save most."""
    run = judged(nodes("abc", 1, NO_BATCHING), [SimRequest(0.0, HOME, 8000, 20) for _ in range(30)])
    limited, change = at_its_bound(run, "slots")
    assert run.occupancy.reading == pytest.approx(0.8, abs=0.01)
    assert "80% of it with reading prompts" in limited
    assert change.startswith("Shorter prompts, or ones that begin alike")

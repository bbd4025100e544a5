"""Runs that stand at their bound, each for another reason, and what is said of it."""

from dataclasses import replace
from random import Random

import pytest

from pairproxy.core.accounting.verdict import shown
from pairproxy.core.models import Rates
from pairproxy.core.workload import SimRequest
from pairproxy.core.workloads.chains import played, sub_agent
from tests.core.accounting.judged import HOME, PIECE_S, Judged, judged, nodes, piece

NO_BATCHING = Rates(prefill=4000.0, decode=40.0, beta=0.0)


def at_its_bound(run: Judged, cause: str) -> tuple[str, str]:
    """The two sentences of a verdict that is about no loss."""
    assert (run.verdict.cause, run.verdict.loss) == (cause, None)
    return run.verdict.limited_by, run.verdict.change


def test_a_last_wave_that_is_full_is_not_said_to_fill_all() -> None:
    """There is nothing to see in it."""
    limited, _ = at_its_bound(judged(nodes("abc"), [piece() for _ in range(6)]), "waves")
    assert limited == "6 requests on 3 slots go in 2 waves of about 2.90 s each."


def test_five_equal_requests_on_three_nodes_are_limited_by_waves() -> None:
    """Two waves, and how many slots would make it one."""
    run = judged(nodes("abc"), [piece() for _ in range(5)])
    limited, change = at_its_bound(run, "waves")
    assert (
        limited
        == "5 requests on 3 slots go in 2 waves of about 2.90 s each, and the last one fills 2 of them."
    )
    assert change.startswith("2 more slots on another paired machine would make it 1 wave")
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
    assert "3.50 s of it its own tools" in limited
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
    assert change.startswith("More slots cannot help;")
    assert "(up to 2 on a node)" in change


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
    assert change.startswith("More machines would save 1.30 s at most")


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


def test_work_that_is_mostly_reading_is_told_as_such() -> None:
    """Long prompts and short replies: a cache would save most."""
    run = judged(nodes("abc", 1, NO_BATCHING), [SimRequest(0.0, HOME, 8000, 20) for _ in range(30)])
    limited, change = at_its_bound(run, "slots")
    assert run.occupancy.reading == pytest.approx(0.8, abs=0.01)
    assert "80% of it with reading prompts" in limited
    assert change.startswith("Shorter prompts, or ones that begin alike")

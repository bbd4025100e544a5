"""Runs whose nodes made the bound, what is said of it, and whether what is promised comes when it is done."""

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from pairproxy.core.accounting.verdict_bounds import by_the_bound
from pairproxy.core.experiments.rigs import at_speeds, published_trio
from pairproxy.core.models import EngineId, ModelName, NodeId, Rates
from pairproxy.core.workload import MODEL, SimEngine, SimNode, SimRequest
from pairproxy.core.workloads.chains import fan_out, played, sub_agent
from tests.core.accounting.judged import HOME, RATES, Judged, judged, nodes, piece

NO_BATCHING = Rates(prefill=4000.0, decode=40.0, beta=0.0)
OFF = 0.15  # part by which a promise may miss what comes of it: it is told with "about"
AT_BEST = 0.2  # the same of chains, which nobody can deal out evenly: it is told with "at best"
Cluster = Sequence[SimNode]


def at_its_bound(run: Judged, cause: str) -> tuple[str, str]:
    """The two sentences of a verdict that is about no loss."""
    assert (run.verdict.cause, run.verdict.loss) == (cause, None)
    return run.verdict.limited_by, run.verdict.change


def promised_s(run: Judged) -> float:
    """The seconds that the second sentence promises."""
    found = re.search(r"about (\d+(?:\.\d+)?) s", run.verdict.change)
    assert found is not None, run.verdict.change
    return float(found[1])


def with_more(cluster: Cluster, *like: int) -> list[SimNode]:
    """The same with more nodes, each like the one of an index."""
    more = [replace(cluster[index], node=NodeId(f"new{number}")) for number, index in enumerate(like)]
    return [*cluster, *more]


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
    seven_of_ten_waves_s = run.report.makespan_s * 7 / 10
    assert f"with 3 more like these it would take about {seven_of_ten_waves_s:.1f} s" in change


FAST = Rates(4000.0, 60.0, 0.1)
FAN = [SimNode.of(name, 1, FAST, cache_tokens=300_000) for name in "ab"]
TREE = fan_out(Random(2), HOME, 8)
AGENTS = played([sub_agent(Random(number), 1 + 100_000 * number) for number in range(8)], [HOME])
POOL = [
    replace(piece(60 + (37 * number) % 80), after=number - 4 if number > 3 else None) for number in range(40)
]
STREAM = [piece(at=0.9 * number) for number in range(40)]
ONE_LONG = [*[replace(piece(), max_output_tokens=128)] * 9, replace(piece(400), max_output_tokens=512)]
UNEQUAL, TWO, TRIO = at_speeds(130.0, 50.0, 25.0), at_speeds(40.0, 10.0), published_trio()
READERS = nodes("ab", 2, Rates(300.0, 80.0, 0.1))
PROMPTS = [SimRequest(0.0, HOME, 1500, 30) for _ in range(16)]
BUSY, BATCHING = nodes("ab", 2, NO_BATCHING), nodes("a", 4, Rates(2000.0, 40.0, 0.15))
CASES: dict[str, tuple[Cluster, Cluster, list[SimRequest], str]] = {
    "all slots busy": (BUSY, with_more(BUSY, 0), [piece()] * 60, "slots"),
    "equal ones, of which a third fills no wave": (
        nodes("ab"), with_more(nodes("ab"), 0), [piece()] * 16, "slots",
    ),
    "one is long": (nodes("abc"), with_more(nodes("abc"), 0, 0), ONE_LONG, "slots"),
    "a pool of four clients": (nodes("abc"), with_more(nodes("abc"), 0, 0), POOL, "slots"),
    "they come as fast as they are done": (nodes("abc"), with_more(nodes("abc"), 0, 0), STREAM, "slots"),
    "sub-agents": (FAN, with_more(FAN, 0), TREE, "slots"),
    "many agents": (FAN, with_more(FAN, 0), AGENTS, "slots"),
    "one fast node": (
        UNEQUAL, with_more(UNEQUAL, 0), [SimRequest(0.0, NodeId("node0"), 800, 200)] * 5, "unequal-nodes",
    ),
    "one node of two does nearly all": (
        TWO, with_more(TWO, 0), [SimRequest(0.0, NodeId("node0"), 800, 100)] * 24, "unequal-nodes",
    ),
    "a slower node takes as long for one": (
        TRIO, [replace(TRIO[2], node=NodeId(name)) for name in ("laptop", "x", "y")],
        [SimRequest(0.0, NodeId("laptop"), 1000, 1500)] * 5, "unequal-nodes",
    ),
    "a batching node alone": (
        BATCHING, nodes("ab", 4, Rates(2000.0, 40.0, 0.15)), [piece()] * 30, "single-node",
    ),
    "waves of reading": (READERS, with_more(READERS, 0), PROMPTS, "waves"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_promised_comes_when_it_is_done(case: str) -> None:
    """The cluster as the second sentence wants it takes about what it said, and less than before."""
    cluster, changed, requests, cause = CASES[case]
    before = judged(cluster, requests)
    assert before.verdict.cause == cause
    after_s = judged(changed, requests).report.makespan_s
    is_best = "at best about" in before.verdict.change
    assert is_best == bool(before.report.chains)
    assert promised_s(before) == pytest.approx(after_s, rel=AT_BEST if is_best else OFF)
    assert after_s < before.report.makespan_s


def test_more_slots_do_not_help_where_prompts_are_read() -> None:
    """Twice as many on each engine take as long: the sentence says so."""
    run = judged(READERS, PROMPTS)
    assert "more `engines.slots` would not" in run.verdict.change
    more = judged(nodes("ab", 4, Rates(300.0, 80.0, 0.1)), PROMPTS)
    assert more.report.makespan_s == pytest.approx(run.report.makespan_s, rel=0.05)


def test_an_agent_that_waits_for_its_sub_agents_is_no_chain() -> None:
    """Eight of them on two slots: more nodes help, so no sentence and no bound says that none can."""
    run = judged(FAN, TREE)
    assert run.verdict.cause != "chain"
    assert not any("more machines cannot help" in note for note in run.report.notes)
    more = judged(with_more(FAN, 0, 0), TREE)
    assert more.report.makespan_s < 0.8 * run.report.makespan_s


def test_requests_that_must_stay_are_told_from_a_model_that_nobody_else_has() -> None:
    """Slots of others stood free, and no schedule could have used them."""
    run = judged(nodes("a", 2, NO_BATCHING), [piece() for _ in range(40)])
    seen = replace(run.seen, report=replace(run.report, barred=2))
    found = by_the_bound(seen)
    assert (found.cause, found.loss) == ("must-stay", None)
    assert found.limited_by.startswith(
        "No request could leave laptop, though 2 other nodes have m:latest, and its 2 slots were busy for "
    )
    assert "X-Pairproxy-Local or routing.local_only" in found.change
    assert f"about {run.report.makespan_s / 2:.1f} s" in found.change

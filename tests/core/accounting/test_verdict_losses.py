"""Runs that lost time, each in another way, and what is said of it: the largest loss, with its seconds."""

import re
from dataclasses import replace
from random import Random

import pytest

from pairproxy.core.accounting.judging import DECISIVE
from pairproxy.core.accounting.records import AttemptRecord
from pairproxy.core.accounting.verdict import shown
from pairproxy.core.experiments.rigs import at_speeds, equal
from pairproxy.core.models import ModelName, NodeId, Rates, Usage
from pairproxy.core.workload import SimNode, Slowdown
from pairproxy.core.workloads.bursts import burst
from pairproxy.core.workloads.chains import shared_prefixes, zipf
from tests.core.accounting.conversation import A, B, at, served
from tests.core.accounting.judged import HOME, RATES, Judged, judged, judged_records, nodes, piece

PLACES = {at(node): (1, {ModelName("m"): Rates(1000.0, 10.0, 0.0)}) for node in (A, B)}


def lost(run: Judged, cause: str, loss: str) -> tuple[str, str]:
    """The two sentences of a verdict about this loss, which is the largest, and is told in seconds."""
    verdict, losses = run.verdict, run.report.losses
    assert (verdict.cause, verdict.loss) == (cause, loss)
    assert losses is not None
    assert getattr(losses, loss) == max(seconds for _, seconds in losses.items())
    assert run.report.lower_bound_s is not None
    assert verdict.limited_by.endswith(f"no schedule ends before {shown(run.report.lower_bound_s)} s.")
    return verdict.limited_by, verdict.change


def seconds_of(run: Judged, loss: str) -> str:
    """As the sentences tell them."""
    return f"{shown(getattr(run.report.losses, loss))} of {shown(run.report.makespan_s)} s"


def test_loading_models_is_told_with_who_loaded() -> None:
    """Two of three nodes are cold."""
    cold = [SimNode.of(name, 1, RATES, is_loaded=name == "a") for name in "abc"]
    run = judged(cold, [piece(200) for _ in range(6)])
    limited, change = lost(run, "cold-loads", "cold_load_s")
    assert limited.startswith(f"Loading models cost {seconds_of(run, 'cold_load_s')}: 2 requests had to wait")
    assert "(1 on b, 1 on c), up to 6.00 s" in limited
    assert "OLLAMA_KEEP_ALIVE" in change


def test_one_long_request_at_the_end_is_named() -> None:
    """It came last, and two nodes had nothing left to do."""
    run = judged(nodes("abc"), [*(piece() for _ in range(9)), piece(300)])
    limited, change = lost(run, "one-long-request", "tail_idle_s")
    assert limited.startswith("One request (r9 on laptop, from 8.70 to ")
    assert seconds_of(run, "tail_idle_s") in limited
    assert change.startswith("Cut that request into parts")


def test_an_uneven_end_is_told() -> None:
    """No request stands out, but the last of them ran alone."""
    run = judged(nodes("abc"), [piece(output) for output in (100, 120, 140, 300, 310, 320, 290)])
    limited, change = lost(run, "uneven-end", "tail_idle_s")
    assert limited.startswith("At the end slots had nothing left to do, which cost ")
    assert "the last request (r6 on laptop)" in limited
    assert change.startswith("More, shorter requests end more evenly")


def test_clients_that_asked_too_late_are_told() -> None:
    """B stood free until the last request came, and took longer for it than A would have."""
    records = [served(f"r{number}", 7.0 * number, 7.0 * number, 7.0 * number + 5.0) for number in range(3)]
    records.append(served("last", 16.0, 16.0, 29.0, B))
    run = judged_records([replace(one, usage=Usage(10, None, 50)) for one in records], {A: 1, B: 1}, PLACES)
    limited, change = lost(run, "arrivals", "tail_idle_s")
    assert limited.startswith(f"The clients asked over 16.0 s: {seconds_of(run, 'tail_idle_s')} went by")
    assert change.startswith("Ask sooner")


def test_prompts_that_are_read_twice_are_told_with_the_cache() -> None:
    """Shared prefixes on three nodes that each read them."""
    requests = shared_prefixes(Random(1), 64, [NodeId("node0")], weights=zipf(8, 0.5), prefix_tokens=3000)
    run = judged(equal(3, 4, cache_tokens=40_000), requests)
    limited, change = lost(run, "repeated-prompts", "duplicated_prefill_s")
    assert seconds_of(run, "duplicated_prefill_s") in limited
    assert (
        f"{run.report.cached_tokens} of {run.report.prompt_tokens} prompt tokens came from a cache" in limited
    )
    assert "`pairproxy advise`" in change


def test_slots_that_stood_free_by_plan_are_told() -> None:
    """The fast node does most of it while the slow ones wait."""
    cluster = at_speeds(130.0, 50.0, 25.0)
    run = judged(cluster, burst(Random(2), 32, [cluster[0].node]))
    limited, change = lost(run, "waiting-by-plan", "waiting_by_plan_s")
    assert seconds_of(run, "waiting_by_plan_s") in limited
    assert "requests: node0 " in limited
    assert "`pairproxy whatif --policy least-busy`" in change


def test_a_node_that_slowed_down_is_a_slow_pace() -> None:
    """Its tokens a second stand beside those of the other."""
    slow = [SimNode.of(n, 1, RATES, slowed=(Slowdown(10.0, 60.0, 0.4),) if n == "b" else ()) for n in "ab"]
    run = judged(slow, [piece() for _ in range(24)])
    limited, change = lost(run, "slow-pace", "prediction_error_s")
    assert seconds_of(run, "prediction_error_s") in limited
    assert "(tokens a busy second: laptop 34, b 19)" in limited
    assert change.startswith("See whether something else used these machines")


def test_a_batching_node_that_is_alone_is_told_as_alone() -> None:
    """What its slots cost each other says less than that nobody else has the model."""
    run = judged(nodes("a", 2), [piece() for _ in range(40)])
    assert (run.verdict.cause, run.verdict.loss) == ("single-node", None)
    assert run.verdict.limited_by.startswith("Only one node, laptop, has m:latest")


def test_a_slow_node_at_the_end_is_no_long_request() -> None:
    """Its reply is as long as all others: to cut it into parts would miss the point."""
    slow = [SimNode.of(n, 2, RATES, slowed=(Slowdown(2.0, 60.0, 0.05),) if n == "b" else ()) for n in "abc"]
    run = judged(slow, [piece() for _ in range(12)])
    limited, change = lost(run, "slow-pace", "tail_idle_s")
    assert " s on b, although its reply is no longer than others, half of which took " in limited
    assert change.startswith("See whether something else used b meanwhile")


def test_what_warm_nodes_save_is_told_with_its_range() -> None:
    """The same run with all models in memory ends within it."""
    cold = [SimNode.of(name, 1, RATES, is_loaded=name == "a") for name in "abc"]
    run = judged(cold, [piece(200) for _ in range(6)])
    warm = judged(nodes("abc"), [piece(200) for _ in range(6)])
    least, most = map(float, re.findall(r"(?:about|or) (\d+\.\d+) s", run.verdict.change))
    assert least - 0.1 <= run.report.makespan_s - warm.report.makespan_s <= most + 0.1


def test_the_way_there_is_told() -> None:
    """Engines say that they worked for half of the time that requests took."""
    usage = Usage(10, None, 45, prefill_s=0.01, decode_s=4.5)
    records = [
        replace(served(f"{node}{number}", 0.0, 9.0 * number, 9.0 * number + 9.0, node), usage=usage)
        for node in (A, B)
        for number in range(4)
    ]
    run = judged_records(records, {A: 1, B: 1}, PLACES)
    limited, change = lost(run, "transport", "transport_s")
    assert limited.startswith(
        f"The way between the nodes and their engines cost {seconds_of(run, 'transport_s')}"
    )
    assert change.startswith("Use a cable")


def test_attempts_for_nothing_are_told_with_their_node() -> None:
    """While A served four, B held the fifth four times and gave it up each time."""
    records = [served(f"u{number}", 0.0, 10.0 * number, 10.0 * number + 10.0) for number in range(4)]
    wasted = tuple(
        AttemptRecord(n, at(B), "finishes first", None, 10.0 * n - 10.0, None, 10.0 * n, "UpstreamBusy")
        for n in range(1, 5)
    )
    last = served("unlucky", 0.0, 40.0, 50.0)
    records.append(replace(last, attempts=(*wasted, *(replace(one, number=5) for one in last.attempts))))
    run = judged_records(records, {A: 1, B: 1}, PLACES)
    limited, change = lost(run, "wasted-attempts", "rescue_waste_s")
    assert limited.startswith(
        f"4 attempts led to nothing (4 on b), which cost {seconds_of(run, 'rescue_waste_s')}"
    )
    assert change.startswith("`pairproxy explain unlucky` says why")


@pytest.mark.parametrize("seed", range(12))
def test_a_loss_that_is_named_is_the_largest(seed: int) -> None:
    """Of any burst on any cluster: the named loss is the largest, and no verdict is without its numbers."""
    random = Random(seed)
    cluster = [
        SimNode.of(
            name,
            random.randint(1, 4),
            Rates(random.uniform(500, 8000), random.uniform(10, 90), 0.1, 3.0),
            is_loaded=name == "a" or random.random() < 0.7,
        )
        for name in "abcd"[: random.randint(1, 4)]
    ]
    run = judged(cluster, burst(random, random.randint(1, 40), [HOME]), seed)
    verdict, losses = run.verdict, run.report.losses
    assert losses is not None
    if verdict.loss is not None:
        assert getattr(losses, verdict.loss) == max(seconds for _, seconds in losses.items())
    else:
        assert losses.largest[1] < DECISIVE * run.report.makespan_s
    for sentence in (verdict.limited_by, verdict.change):
        assert sentence.endswith(".")
    assert any(character.isdigit() for character in verdict.limited_by)

from dataclasses import replace
from random import Random

import pytest

from pairproxy.core.accounting.report import report_run
from pairproxy.core.accounting.runs import Run, group_runs
from pairproxy.core.models import EngineId, ModelName, NodeId, Outcome, Place, Rates, Usage
from pairproxy.core.rules import Rules
from pairproxy.core.simulator import simulate
from pairproxy.core.whatif.alone import best_single_node, modelled_t1s
from pairproxy.core.whatif.pieces import pieces_of
from pairproxy.core.workload import SimEngine, SimNode, SimRequest

A, B = NodeId("a"), NodeId("b")
FAST, SLOW = Rates(4000.0, 50.0, 0.15), Rates(1000.0, 12.5, 0.15)
NODES = [SimNode.of("a", 2, SLOW), SimNode.of("b", 3, FAST)]


def places(nodes: list[SimNode]) -> dict[Place, tuple[int, dict[ModelName, Rates]]]:
    """What is known of the nodes when the run is reported: here, the truth."""
    return {
        Place(node.node, engine.engine): (engine.slots, {**engine.rates})
        for node in nodes
        for engine in node.engines
    }


def burst(count: int = 12, *, seed: int = 0, spread_s: float = 0.0) -> list[SimRequest]:
    """Requests of random sizes."""
    random = Random(seed)
    return [
        SimRequest(random.uniform(0.0, spread_s), A, random.randint(50, 2000), random.randint(20, 300))
        for _ in range(count)
    ]


def run_of(nodes: list[SimNode], requests: list[SimRequest]) -> Run:
    """The run as the ledger has it afterwards."""
    (run,) = group_runs(simulate(nodes, requests).records, idle_gap_s=1e6)
    return run


@pytest.mark.parametrize("spread_s", [0.0, 30.0])
def test_the_model_says_what_a_replay_would_have_shown(spread_s: float) -> None:
    """T1 on the best node is the makespan of the same requests there, as the simulator runs them."""
    requests = burst(spread_s=spread_s)
    t1 = best_single_node(run_of(NODES, requests), places(NODES))
    assert t1 is not None
    real = simulate([replace(NODES[1], node=A)], requests).makespan_s
    assert (t1.node, t1.kind) == (B, "modelled")
    assert t1.value_s == pytest.approx(real, rel=0.02)
    assert t1.model_error == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("by", [0.6, 1.2, 1.9])
def test_speeds_that_were_learned_wrong_are_corrected_by_the_run(by: float) -> None:
    """T1 is what it would have been with the right ones: how long requests took says how fast a node is."""
    run = run_of(NODES, burst())
    wrong = {
        place: (
            slots,
            {m: replace(r, prefill=r.prefill * by, decode=r.decode * by) for m, r in rates.items()},
        )
        for place, (slots, rates) in places(NODES).items()
    }
    right, t1 = modelled_t1s(run, places(NODES))[B], modelled_t1s(run, wrong)[B]
    assert t1.value_s == pytest.approx(right.value_s, rel=0.05)
    assert t1.model_error == pytest.approx(0.0, abs=0.05)


def test_a_model_that_cannot_be_corrected_shows_its_error() -> None:
    """Prompts that take the time which the model gives to replies are as wrong as before."""
    run = run_of(NODES, burst())
    wrong = {
        place: (slots, {m: replace(r, prefill=r.prefill * 50, decode=r.decode / 8) for m, r in rates.items()})
        for place, (slots, rates) in places(NODES).items()
    }
    t1 = modelled_t1s(run, wrong)[B]
    assert t1.model_error is not None
    assert t1.model_error > 0.3
    assert not t1.is_credible


def test_a_single_request_on_a_single_node_gains_nothing() -> None:
    """Whatever the model of that node makes of it, no number above one is told."""
    nodes = [SimNode.of("a", 1, FAST)]
    run = run_of(nodes, [SimRequest(0.0, A, 1000, 200)])
    slow = {place: (slots, dict.fromkeys(rates, SLOW)) for place, (slots, rates) in places(nodes).items()}
    report = report_run(run, {A: 1}, best_single_node(run, slow))
    assert (report.speedup, report.bound_provable, report.t1) == (None, None, None)
    assert "Only one node had a replica of this model: there was nothing to balance." in report.notes


def test_the_report_takes_it() -> None:
    """It becomes a speedup, and the note that it is modelled."""
    run = run_of(NODES, burst())
    report = report_run(run, {A: 2, B: 3}, best_single_node(run, places(NODES)))
    assert report.speedup is not None
    assert report.bound_provable is not None
    assert 0.98 <= report.speedup <= report.bound_provable
    assert any("modelled" in note for note in report.notes)


def test_a_node_with_two_engines_is_taken_at_its_best() -> None:
    """Both engines, or the better one alone, whichever is sooner."""
    slow_too = SimEngine(EngineId("cpu"), 1, {next(iter(NODES[1].engines[0].rates)): Rates(10.0, 0.5, 0.0)})
    both = replace(NODES[1], engines=(*NODES[1].engines, slow_too))
    run = run_of(NODES, burst())
    alone = modelled_t1s(run, places(NODES)).get(B)
    assert alone is not None
    with_cpu = modelled_t1s(run, places([both]) | places(NODES[:1])).get(B)
    assert with_cpu is not None
    assert with_cpu.value_s == alone.value_s


def test_what_was_cached_need_not_be_read() -> None:
    """Only the tokens that the run read are read again."""
    run = run_of(NODES, burst())
    cached = replace(run, records=tuple(
        replace(one, usage=replace(one.usage, cached_tokens=one.usage.prompt_tokens)) for one in run.records
    ))  # fmt: skip
    assert [piece.read for piece in pieces_of(cached)] == [0] * len(run.records)
    assert min(piece.read for piece in pieces_of(run)) > 0


def test_what_did_not_end_well_is_no_work() -> None:
    """A request that was refused or cancelled is left out, on both sides."""
    run = run_of(NODES, burst())
    less = replace(run, records=(replace(run.records[0], outcome=Outcome.CANCELLED), *run.records[1:]))
    whole, part = modelled_t1s(run, places(NODES)).get(B), modelled_t1s(less, places(NODES)).get(B)
    assert whole is not None
    assert part is not None
    assert part.value_s < whole.value_s


def test_what_cannot_be_modelled_is_not_claimed() -> None:
    """A reply without its tokens, a model the node does not hold, a node nobody knows, nothing done."""
    run = run_of(NODES, burst())
    silent = replace(run, records=(replace(run.records[0], usage=Usage()), *run.records[1:]))
    assert best_single_node(silent, places(NODES)) is None
    other = {place: (slots, {ModelName("other"): FAST}) for place, (slots, _) in places(NODES).items()}
    assert best_single_node(run, other) is None
    assert modelled_t1s(run, places(NODES)).get(NodeId("c")) is None
    assert best_single_node(run, {}) is None
    failed = replace(run, records=tuple(replace(one, outcome=Outcome.FAILED) for one in run.records))
    assert best_single_node(failed, places(NODES)) is None


def test_a_run_on_a_place_that_is_gone_has_no_known_error() -> None:
    """The node alone can be modelled, the run as it happened cannot."""
    run = run_of(NODES, burst())
    t1 = best_single_node(run, places(NODES[:1]))
    assert t1 is not None
    assert (t1.node, t1.model_error) == (A, None)


def chains(count: int, steps: int) -> list[SimRequest]:
    """Closed loops whose prompts grow by 20 blocks a step, three seconds of a tool between the steps."""
    requests: list[SimRequest] = []
    for chain in range(count):
        for step in range(steps):
            blocks = tuple(range(1000 * chain, 1000 * chain + 20 * (step + 1)))
            after = len(requests) - 1 if step else None
            requests.append(
                SimRequest(0.0, A, 64 * len(blocks) + 9, 60, after=after, think_s=3.0 if step else 0.0,
                           blocks=blocks, run="job")
            )  # fmt: skip
    return requests


@pytest.mark.parametrize("cache_tokens", [2_000, 50_000])
def test_chains_are_replayed_as_chains_with_the_nodes_own_cache(cache_tokens: int) -> None:
    """A step arrives a tool's time after the step before; what a small cache lost is read again."""
    nodes = [
        SimNode.of("a", 2, SLOW, cache_tokens=cache_tokens),
        SimNode.of("b", 2, FAST, cache_tokens=cache_tokens),
    ]
    run = run_of(nodes, chains(3, 5))
    caches = dict.fromkeys(places(nodes), cache_tokens)
    t1 = modelled_t1s(run, places(nodes), caches)[B]
    alone = SimNode.of("a", 2, FAST, cache_tokens=cache_tokens)
    real = simulate([alone], chains(3, 5)).makespan_s
    assert t1.value_s == pytest.approx(real, rel=0.1)


def test_a_node_may_be_better_with_fewer_at_once() -> None:
    """Where requests slow each other by more than they share, one after the other is sooner."""
    bad = Rates(4000.0, 50.0, beta=3.0)
    run = run_of(NODES, burst())
    known = places(NODES)
    both = {**known, **{place: (4, dict.fromkeys(rates, bad)) for place, (_, rates) in known.items()}}
    one = {**known, **{place: (1, dict.fromkeys(rates, bad)) for place, (_, rates) in known.items()}}
    assert modelled_t1s(run, both)[B].value_s == pytest.approx(modelled_t1s(run, one)[B].value_s)


def test_a_node_alone_would_have_loaded_the_model_as_well() -> None:
    """All three were cold: no one of them is called faster than all together for it."""
    rates = Rates(2000.0, 40.0, 0.1, load_s=20.0)
    nodes = [SimNode.of(name, 1, rates, is_loaded=False) for name in "abc"]
    requests = [SimRequest(0.0, A, 800, 100) for _ in range(9)]
    records = simulate(nodes, requests, Rules(queue_timeout_s=1e6)).records
    t1 = best_single_node(Run("job", None, records), places(nodes))
    really_s = simulate(nodes[:1], requests, Rules(queue_timeout_s=1e6)).makespan_s
    assert t1 is not None
    assert t1.value_s == pytest.approx(really_s, rel=0.05)
    assert t1.is_credible

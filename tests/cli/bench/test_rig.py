from dataclasses import replace
from pathlib import Path

import pytest

from pairproxy import loading
from pairproxy.cli.bench.rig import NodeSpec, Rig, agents, equal, names, published, read_node, unequal
from pairproxy.core.errors import PairproxyError


def test_a_node_is_read_as_it_is_written() -> None:
    """Slots, prefill, decode; contention and cache if they are given."""
    assert read_node("gpu=4:2000:120") == NodeSpec("gpu", 4, 2000.0, 120.0)
    assert read_node("mini-2=1:400:20:0.6:8192") == NodeSpec("mini-2", 1, 400.0, 20.0, 0.6, 8192)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpu",
        "gpu=4",
        "gpu=4:2000",
        "gpu=0:2000:120",
        "gpu=1.5:2000:120",
        "gpu=65:2000:120",
        "../x=1:1:1",
        "g=1:2:.",
        "G=1:2:3",
    ],
)
def test_what_is_no_node_is_a_sentence_with_an_example(text: str) -> None:
    """Names become directories and numbers become speeds, so nothing else passes."""
    with pytest.raises(PairproxyError, match="for example gpu=4:2000:120"):
        read_node(text)


def test_the_best_node_is_the_one_that_writes_most_with_its_slots_full() -> None:
    """Four slots of 30 tokens/s with little contention beat one of 60."""
    few, many = NodeSpec("few", 1, 1000.0, 60.0), NodeSpec("many", 4, 1000.0, 30.0, 0.15)
    assert many.full_decode == pytest.approx(30 * 4 / 1.45)
    assert Rig((few, many)).best is many


def test_daemons_and_simulator_get_the_same_nodes(tmp_path: Path) -> None:
    """Rates, slots and caches are the same in both; only the daemons are fast-forwarded."""
    rig = Rig(unequal(2), fast_forward=20.0)
    for spec, sim in zip(rig.nodes, rig.sim_nodes(), strict=True):
        file = tmp_path / "config.toml"
        file.write_text(rig.settings("least-busy")[spec.name])
        settings = loading.load(file, {})
        (entry,), (engine,) = settings.engines, sim.engines
        (rates,) = engine.rates.values()
        paced = entry.paced
        assert (paced.prefill, paced.decode, paced.beta) == (rates.prefill, rates.decode, rates.beta)
        assert (entry.slots, paced.cached_tokens) == (engine.slots, engine.cache_tokens)
        assert (paced.fast_forward, settings.routing.policy) == (20.0, "least-busy")
    assert [node.node for node in rig.sim_nodes("gpu")] == ["gpu"]


def test_the_usual_nodes_are_as_unequal_as_is_said() -> None:
    """1 : 1.5 : 4; equal ones differ in nothing but their names; a server with room for many prompts."""
    laptop, box, gpu = unequal(4)
    assert (box.decode / laptop.decode, gpu.decode / laptop.decode) == (1.5, 4.0)
    assert {node.slots for node in (laptop, box, gpu)} == {4}
    first, second = equal(2)
    assert replace(first, name="x") == replace(second, name="x")
    assert [node.slots for node in agents()] == [4, 4, 8]


def test_the_simulator_may_have_them_faster() -> None:
    """Twenty times the rates, and nothing else."""
    (usual, *_), (fast, *_) = Rig(equal(2)).sim_nodes(), Rig(equal(2)).sim_nodes(pace=20.0)
    (rates,), (faster,) = usual.engines[0].rates.values(), fast.engines[0].rates.values()
    assert (faster.decode, faster.prefill, faster.beta) == (20 * rates.decode, 20 * rates.prefill, rates.beta)
    assert fast.engines[0].cache_tokens == usual.engines[0].cache_tokens


def test_the_published_nodes_take_the_published_times() -> None:
    """Five tasks of 7,500 tokens behind 600: 18:00 on the laptop, 6:18 on the 5090."""
    laptop, spark, card = published(0.82)
    took = {node.name: 5 * (600 / node.prefill + 7500 / node.decode) for node in (laptop, spark, card)}
    assert took["laptop"] == pytest.approx(18 * 60, rel=0.001)
    assert took["rtx-5090"] == pytest.approx(6 * 60 + 18, rel=0.001)
    assert 2 * took["spark"] / 5 == pytest.approx(8 * 60 + 48, rel=0.01)
    assert names((laptop, spark)) == ("laptop", "spark")

from dataclasses import replace

import pytest

from pairproxy.core.advice.memory import Memory
from pairproxy.core.advice.trials import Trials
from pairproxy.core.advice.words import seconds
from pairproxy.core.advice.writing import decode, tiers
from pairproxy.core.models import Rates
from pairproxy.core.workload import Slowdown
from tests.core.advice.looking import USUAL, burst, chain, faster, happens, look, node

WRITES_SLOWLY = Rates(4000.0, 8.0, 0.15)


def test_a_slow_token_in_a_small_batch_is_a_matter_of_memory() -> None:
    """Half the bytes a token, applied: the run ends when it was said."""
    evidence = look([node("a", 1, WRITES_SLOWLY)], chain(3))
    (found,) = decode(evidence, Trials(evidence))
    assert found.helps
    assert found.numbers["tpot_s"] == pytest.approx(1 / 8, rel=0.05)
    really = happens([node("a", 1, faster(WRITES_SLOWLY, decode=2.0))], chain(3), "fastest-finish")
    assert found.numbers["simulated_after_s"] == pytest.approx(really.makespan_s, rel=0.1)
    assert "quantisation" in found.sentence


def test_slow_tokens_in_much_company_are_not() -> None:
    """Eight at once at a machine that slows for each of them."""
    evidence = look([node("a", 8, Rates(4000.0, 40.0, 0.5))], burst(8))
    (found,) = decode(evidence, Trials(evidence))
    assert not found.helps
    assert found.numbers["company"] > 6.0
    assert found.numbers["alone_tpot_s"] == pytest.approx(0.025, rel=0.1)
    assert "slots share one machine" in found.sentence


def test_tokens_that_come_as_fast_as_anybody_reads_are_fine() -> None:
    """20 ms are."""
    evidence = look([node("a")], chain(3))
    (found,) = decode(evidence, Trials(evidence))
    assert not found.helps
    really = happens([node("a", rates=faster(USUAL, decode=2.0))], chain(3), "fastest-finish")
    assert f"twice as fast, the run would end in {seconds(really.makespan_s)} instead of" in found.sentence


def test_a_machine_that_somebody_else_uses_is_not_a_matter_of_slots() -> None:
    """Two at once explain a tenth more, and tokens took three times as long."""
    alone = node("a", 2, Rates(4000.0, 20.0, 0.1))
    slowed = replace(alone, slowed=(Slowdown(0.5, 60.0, 0.3),))
    evidence = look([slowed], burst(2))
    (found,) = decode(evidence, Trials(evidence))
    assert not found.helps
    assert "something else used a machine meanwhile" in found.sentence
    evidence = look([alone], burst(2))
    (found,) = decode(evidence, Trials(evidence))
    assert "something else" not in found.sentence


def test_without_a_simulation_the_times_alone_speak() -> None:
    """Of a machine whose past cannot be simulated."""
    evidence = look([node("a", 1, WRITES_SLOWLY)], chain(3))
    past = replace(evidence.recording, makespan_s=1.0)
    evidence = replace(evidence, recording=past)
    trials = Trials(evidence)
    assert trials.base is None
    (found,) = decode(evidence, trials)
    assert found.helps
    assert found.gain_s is None


@pytest.mark.parametrize(
    ("memory", "says"),
    [
        (Memory(64 << 30), "no use here: this machine has one memory of 64 GiB"),
        (Memory(), "no use here: this machine has one memory and no card"),
        (Memory(128 << 30, is_unified=True, cards=1), "nothing to offload to"),
        (Memory(64 << 30, cards=1), "all layers fit into the card: what is left in the memory of 64 GiB"),
        (Memory(64 << 30, cards=1, card_bytes=24 << 30), "fit into the 24 GiB of the card"),
        (Memory(64 << 30, memory_nodes=1), "faster of this machine's two memory tiers"),
        (Memory(64 << 30, numa_nodes=2), "2 NUMA nodes"),
    ],
)
def test_offloading_is_named_only_where_there_are_two_memories(memory: Memory, says: str) -> None:
    """Each machine hears what fits it."""
    assert says in tiers(memory)

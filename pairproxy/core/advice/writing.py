"""Third branch of the tree: tokens come slowly. Memory-bound where a request writes alone, else company."""

from collections.abc import Iterator

from pairproxy.core.advice.evidence import Conclusion, Evidence
from pairproxy.core.advice.memory import Memory
from pairproxy.core.advice.trials import Trials
from pairproxy.core.advice.words import seconds

FINE_TPOT_S = 0.04
"""25 tokens/s, which nobody reads faster: the limit of MLPerf Inference's interactive scenario (v5.0)."""
UNEXPLAINED = 1.5  # times as long as company explains: the speeds that are learned are no further off
ALONE = 0.8  # of the time of a token is what it takes without company: a small batch


def decode(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """One token reads all weights once, however many requests share it: memory limits a small batch."""
    timing = evidence.timing
    if timing.tpot_s is None or timing.alone_tpot_s is None or timing.company is None:
        return
    numbers = {
        "tpot_s": timing.tpot_s,
        "alone_tpot_s": timing.alone_tpot_s,
        "company": timing.company,
    }
    token = f"a token took {seconds(timing.tpot_s)}"
    base, trial = trials.base, trials.faster(decode=2.0)
    if timing.tpot_s < FINE_TPOT_S:
        fine = f"Faster writing: {token}, faster than anybody reads"
        if base is not None and trial is not None and trial.gains(base):
            fine += f"; who waits for whole replies gains by it: twice as fast, {trial.effect(base)}"
        yield Conclusion("decode", False, f"{fine}.", numbers)
        return
    if timing.alone_tpot_s < ALONE * timing.tpot_s:
        yield Conclusion("decode", False, f"Faster writing: {token}, {_company(evidence)}.", numbers)
        return
    told = f"Faster writing: {token} with {timing.company:.1f} at once, so memory is the limit"
    then = "A smaller quantisation (the engine's business) or a smaller model does that"
    then = f"{then}; {tiers(evidence.memory)}"
    if base is None or trial is None:
        yield Conclusion("decode", True, f"{told}. {then}.", numbers)
        return
    told += f". With half the bytes a token {trial.effect(base)}."
    yield trial.concluded("decode", base, f"{told} {then}." if trial.gains(base) else told, numbers)


def _company(evidence: Evidence) -> str:
    """What made tokens slower than a request alone would get them."""
    alone_s, company = evidence.timing.alone_tpot_s or 0.0, evidence.timing.company or 1.0
    betas = [rates.beta for place in evidence.recording.places for rates in place.rates.values()]
    explained_s = alone_s * (1.0 + max(betas, default=0.0) * (company - 1.0))
    told = f"{seconds(alone_s)} without company, and {company:.1f} wrote at once"
    if (evidence.timing.tpot_s or 0.0) > UNEXPLAINED * explained_s:
        return (
            f"{told}, which explains {seconds(explained_s)}: something else used a machine meanwhile, or it "
            "slows down when it is hot"
        )
    return f"{told}: the slots share one machine, and more nodes take the company away"


def tiers(memory: Memory) -> str:
    """Whether to split a model between two memories can be thought of here at all."""
    size = f" of {memory.total_bytes / 2**30:.0f} GiB" if memory.total_bytes else ""
    if memory.is_unified:
        return f"there is nothing to offload to: processor and GPU share one memory{size}"
    if memory.cards:
        card = f"{memory.card_bytes / 2**30:.0f} GiB of the " if memory.card_bytes else ""
        return f"see that all layers fit into the {card}card: what is left in the memory{size} is far slower"
    if memory.memory_nodes:
        return "put the weights into the faster of this machine's two memory tiers"
    if memory.numa_nodes > 1:
        return (
            f"bind the engine to the memory beside its processors ({memory.numa_nodes} NUMA nodes): "
            "llama-server has --numa for it"
        )
    return f"offloading has no use here: this machine has one memory{size} and no card"

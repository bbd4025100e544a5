from dataclasses import replace

import pytest

from pairproxy.core.affinity import FORGETS_S, KAPPA, MOST_PLACES, Affinity
from pairproxy.core.models import BLOCK_TOKENS, Candidate, NodeId, Request
from tests.core.told import A, B, C, ask, at

BLOCKS = 100
PROMPT = tuple(range(1, BLOCKS + 1))
TOKENS = BLOCKS * BLOCK_TOKENS
READ_S = 6.4  # all of the prompt, at 1000 tokens/s


def asked(prefix: tuple[int, ...] = PROMPT) -> Request:
    """A request with this prompt."""
    return ask("r", prompt=len(prefix) * BLOCK_TOKENS, prefix=prefix)


def place(
    node: NodeId, cached: int = 0, *, wait_s: float = 0.0, speed: float = 1000.0, slots: int = 1
) -> Candidate:
    """A candidate that holds so many blocks of the prompt."""
    tokens = cached * BLOCK_TOKENS
    return Candidate(at(node), wait_s, 0.0, (TOKENS - tokens) / speed, 2.0, 0, slots, cached_tokens=tokens)


def prices(affinity: Affinity, *candidates: Candidate, when: float = 0.0) -> dict[NodeId, float]:
    """The affinity of each candidate, in seconds."""
    priced = affinity.priced(asked(), list(candidates), when)
    assert [replace(one, affinity_s=0.0) for one in priced] == list(candidates)
    return {one.place.node: one.affinity_s for one in priced}


def test_reading_again_what_another_place_holds_has_its_price() -> None:
    """KAPPA times the seconds of it; who holds about the most of it pays nothing."""
    found = prices(Affinity(), place(A, 80), place(B, 75), place(C, 40))
    assert found == pytest.approx({A: 0.0, B: 0.0, C: KAPPA * 40 * BLOCK_TOKENS / 1000.0})


def test_a_faster_place_reads_again_for_less() -> None:
    """The price is in its own seconds."""
    found = prices(Affinity(), place(A, 80), place(B, speed=4000.0))
    assert found == pytest.approx({A: 0.0, B: KAPPA * 80 * BLOCK_TOKENS / 4000.0})


def test_a_beginning_that_all_prompts_share_is_no_home() -> None:
    """Who holds less than a third of the prompt binds nobody."""
    assert prices(Affinity(), place(A, 30), place(B, wait_s=-5.0)) == {A: 0.0, B: 0.0}


def test_nothing_is_priced_where_there_is_nothing_to_choose() -> None:
    """One candidate, or a prompt without a full block."""
    affinity = Affinity()
    assert prices(affinity, place(A)) == {A: 0.0}
    many = [place(A, 80), place(B)]
    assert affinity.priced(asked(()), many, 0.0) is many
    assert affinity.priced(asked(), [], 0.0) == []
    affinity.sent(asked(()), place(A), 0.0)


def test_new_prefixes_go_where_the_fewest_went_lately() -> None:
    """Among places about as good as the best; a much better one gets it all the same."""
    affinity = Affinity()
    got = []
    for number in range(6):
        candidates = [place(A), place(B), place(C, wait_s=0.8)]
        priced = affinity.priced(asked(), candidates, float(number))
        best = min(priced, key=lambda one: one.finish_s + one.affinity_s)
        affinity.sent(asked(), best, float(number))
        got.append(best.place.node)
    assert sorted(got) == [A, A, B, B, C, C]
    assert prices(affinity, place(A), place(B, wait_s=2.0), when=9.0) == {A: 0.0, B: 0.0}


def test_a_faster_node_takes_more_of_the_new_prefixes() -> None:
    """What went there counts by the seconds that it takes to read; and fades."""
    affinity = Affinity()
    affinity.sent(asked(), place(A, speed=3000.0), 0.0)
    affinity.sent(asked(), place(A, speed=3000.0), 0.0)
    affinity.sent(asked(), place(B), 0.0)
    slow, fast = place(B), replace(place(A, speed=3000.0), wait_s=4.4)
    found = affinity.priced(asked(), [slow, fast], 1.0)
    assert found[0].affinity_s == pytest.approx(fast.finish_s - slow.finish_s, abs=1e-5)
    assert found[0].affinity_s > 0.1
    assert found[1].affinity_s == 0.0
    assert prices(affinity, place(B), place(C), when=1.0)[B] > 0.0
    for _ in range(3):
        affinity.sent(asked(), place(C), 1.0 + 10 * FORGETS_S)
    assert prices(affinity, place(B), place(C), when=1.0 + 10 * FORGETS_S)[C] > 0.0


def test_what_is_remembered_has_an_end() -> None:
    """The place that was used first is forgotten first."""
    affinity = Affinity()
    for number in range(MOST_PLACES):
        affinity.sent(asked(), place(NodeId(f"n{number}")), 0.0)
    assert prices(affinity, place(NodeId("n0")), place(C))[NodeId("n0")] > 0.0
    affinity.sent(asked(), place(A), 0.0)
    assert prices(affinity, place(NodeId("n0")), place(C)) == {NodeId("n0"): 0.0, C: 1e-6}


def test_a_short_prompt_is_not_worth_a_slower_place() -> None:
    """No more is given for an even spread than reading the prompt takes."""
    affinity = Affinity()
    affinity.sent(asked(), place(A), 0.0)
    short = [
        replace(place(node), prefill_s=0.01, decode_s=9.0, wait_s=wait) for node, wait in ((A, 0.0), (B, 0.1))
    ]
    assert [one.affinity_s for one in affinity.priced(asked(), short, 0.0)] == [0.0, 0.0]

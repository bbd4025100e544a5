from dataclasses import replace

import pytest

from pairproxy.core.accounting.bounds import provable_makespan
from pairproxy.core.accounting.chains import follows
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.works import Work, able, holding, lower_bounds, slots_of, speeds_of, works_of
from pairproxy.core.models import EngineId, ModelName, NodeId, Place, Rates
from tests.core.accounting.conversation import A, B, at, dispatch, served

MODEL = ModelName("m")
ONE = Rates(prefill=100.0, decode=10.0, beta=0.5)
TWICE = Rates(prefill=200.0, decode=20.0, beta=0.5)


def known(**rates: Rates) -> dict[Place, tuple[int, dict[ModelName, Rates]]]:
    """One place with two slots per node."""
    nodes = {"a": A, "b": B}
    return {at(nodes[name]): (2, {MODEL: one}) for name, one in rates.items()}


def work(
    read: float, write: float, arrived: float = 0.0, after: int | None = None, think: float = 0.0
) -> Work:
    """A piece of work."""
    return Work(arrived, MODEL, read, write, after, think)


def test_places_are_those_that_hold_a_model_and_slots_add_up() -> None:
    """A node may have several engines; what holds nothing of it is no place for it."""
    places = {
        Place(A, EngineId("one")): (1, {MODEL: ONE}),
        Place(A, EngineId("two")): (2, {MODEL: ONE}),
        at(B): (4, {ModelName("other"): ONE}),
    }
    assert slots_of(places) == {A: 3, B: 4}
    assert slots_of(holding(places, [MODEL])) == {A: 3}
    assert holding(places, []) == {}


def test_alone_it_takes_its_reading_and_its_writing() -> None:
    """In seconds at the rates of the engine; of all slots it takes half as long, of its writing the curve."""
    assert work(200, 50).alone_s(ONE) == 2.0 + 5.0
    assert work(200, 50).uses(2, ONE) == pytest.approx((3.5, 2.0, 50 / (10.0 * 2 / 1.5)))


def test_an_engine_writes_no_more_than_its_curve_allows() -> None:
    """Four equal replies on two slots: the slots alone would allow ten seconds, the curve fifteen."""
    works = [work(0.001, 50.0) for _ in range(4)]
    slots_only = provable_makespan([{0: one.alone_s(ONE)} for one in works], {0: 2})
    assert slots_only == pytest.approx(10.0, rel=1e-3)
    assert lower_bounds(works, known(a=ONE)).makespan_s == pytest.approx(15.0, rel=1e-3)


def test_prompts_read_at_once_share_the_rate() -> None:
    """Two thousand tokens on two slots take as long as on one."""
    works = [work(1000.0, 0.0) for _ in range(2)]
    assert lower_bounds(works, known(a=ONE)).makespan_s == pytest.approx(20.0)


def test_a_chain_bounds_the_run_on_the_node_that_is_soonest() -> None:
    """Each step begins when the one before could have ended, and its tool has run; not when it arrived."""
    works = [work(100, 20), work(100, 20, arrived=50.0, after=0, think=4.0)]
    found = lower_bounds(works, known(a=ONE, b=TWICE))
    assert found.span_s == pytest.approx(1.5 + 4.0 + 1.5)
    assert found.makespan_s == pytest.approx(7.0)


def test_speeds_are_those_with_all_slots_in_use() -> None:
    """A node that is twice as fast does twice as much of the mean request."""
    speeds = speeds_of([work(100, 20)], known(a=ONE, b=TWICE))
    assert speeds[at(B)] == pytest.approx(2 * speeds[at(A)])


def reading(*records: RequestRecord) -> list[float]:
    """Tokens to read: of each record, then of each beginning that several have in common."""
    return [one.read_tokens for one in works_of(records, follows(records))]


def test_what_prompts_share_is_read_once() -> None:
    """Two blocks in three prompts: the blocks count once, and the rest of each for itself."""
    own = [served(f"r{name}", 0, 0, 1, prefix=(1, 2, 10 + name), prompt=4 * 64) for name in range(3)]
    assert reading(*own) == pytest.approx([64 * 4 / 3] * 3 + [2 * 64])


def test_a_chain_reads_each_piece_once() -> None:
    """The first step reads its prompt, the next only what is new and was not written by the engine itself."""
    first = served("a", 0, 0, 1, prefix=(1, 2), prompt=128, tokens=30)
    second = served("b", 2, 2, 3, prefix=(1, 2, 3, 4), prompt=256, tokens=30)
    assert reading(first, second)[0] == pytest.approx(128 * 2 / 3, abs=1)
    assert reading(first, second)[1] == pytest.approx(128 - 30)


def test_a_named_chain_may_repeat_all_of_its_last_prompt() -> None:
    """Without blocks nobody knows, so what was there before counts as spared."""
    steps = [served(name, start, start, start + 1, chain="c", prompt=prompt, tokens=10)
             for name, start, prompt in (("a", 0, 100), ("b", 2, 150))]  # fmt: skip
    assert reading(*steps) == [100.0, 40.0]


def test_what_was_in_a_cache_before_is_spared() -> None:
    """An engine that tells what was cached is believed; a shared beginning that the first one found, too."""
    assert reading(served("a", 0, 0, 1, prompt=100, cached=90)) == [10.0]
    pair = [served(name, 0, 0, 1, prefix=(1, 2), prompt=130, cached=128) for name in "ab"]
    assert reading(*pair) == [0.0, 0.0, 2.0]


def test_replies_that_do_not_count_their_tokens_are_no_work() -> None:
    """Nothing is guessed."""
    assert works_of([served("a", 0, 0, 1, tokens=None)], [None]) == ()


def test_who_was_a_candidate_for_none_of_a_run_could_take_none_of_it() -> None:
    """It must stay, or a model of the same name is another one there; without the decisions nobody knows."""
    places = known(a=ONE, b=TWICE)
    here, there = (decided(name, node) for name, node in (("r", A), ("s", B)))
    assert [*able(places, [here])] == [at(A)]
    assert [*able(places, [here, there])] == [at(A), at(B)]
    forgotten = served("t", 0.0, 0.0, 1.0)
    assert [*able(places, [here, forgotten])] == [at(A), at(B)]
    assert [*able({at(B): places[at(B)]}, [here])] == [at(B)]  # what it ran on is not there any more


def decided(name: str, node: NodeId) -> RequestRecord:
    """A request for which the node, and another one that is gone, were candidates."""
    record = served(name, 0.0, 0.0, 1.0, node)
    (attempt,) = record.attempts
    return replace(record, attempts=(replace(attempt, decision=dispatch(name, node).decision),))

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.accounting.chains import critical_path, find_chains, follows, size, think_s, waits_for
from pairproxy.core.accounting.records import RequestRecord
from tests.core.accounting.conversation import served


def step(name: str, start: float, end: float, *blocks: int, **facts: object) -> RequestRecord:
    """A request that ran from its arrival on, with a prompt of these blocks."""
    return served(name, start, start, end, prefix=blocks, prompt=64 * len(blocks) + 1, **facts)  # type: ignore[arg-type]


def test_a_prompt_that_goes_on_with_another_follows_it() -> None:
    """Three steps with two seconds of a tool between them are one chain, and nothing else is."""
    records = [step("a", 0, 3, 1), step("x", 1, 9, 7), step("b", 5, 8, 1, 2), step("c", 10, 14, 1, 2, 3)]
    parents = follows(records)
    assert parents == (None, None, 0, 2)
    (chain,) = find_chains(records, parents)
    assert (chain.steps, chain.tool_s, chain.span_s) == ((0, 2, 3), 4.0, 14.0)
    assert think_s(records, 3, 2) == 2.0
    assert critical_path(records, parents).span_s == 14.0


def test_waiting_is_no_part_of_the_path() -> None:
    """A step that stood in the queue for a minute took as long as it ran."""
    records = [step("a", 0, 3, 1), served("b", 4, 64, 66, prefix=(1, 2), prompt=200)]
    assert critical_path(records, follows(records)).span_s == 3.0 + 1.0 + 2.0


def test_a_step_waits_for_the_one_before() -> None:
    """Whoever arrives before the reply is there does not follow it, whatever its prompt begins with."""
    records = [step("a", 0, 3, 1), step("b", 2, 8, 1, 2)]
    assert follows(records) == (None, None)
    assert find_chains(records, (None, None)) == ()


def test_the_longest_prompt_is_the_one_that_was_gone_on_with() -> None:
    """Of all that a prompt begins with, the last step; sub-agents that fork off one request all follow it."""
    records = [
        step("main", 0, 1, 1),
        step("plan", 2, 3, 1, 2),
        step("left", 4, 9, 1, 2, 3),
        step("right", 4, 7, 1, 2, 4),
        step("left2", 10, 12, 1, 2, 3, 5),
    ]
    parents = follows(records)
    assert parents == (None, 0, 1, 1, 2)
    assert [chain.steps for chain in find_chains(records, parents)] == [(0, 1, 2, 4)]


def test_the_same_prompt_again_is_no_step() -> None:
    """Nor is the same prompt to another model."""
    assert follows([step("a", 0, 3, 1), step("b", 4, 5, 1)]) == (None, None)
    other = [served("a", 0, 0, 3, prefix=(1,)), step("b", 4, 5, 1, 2)]
    assert follows([other[0], other[1]]) == (None, 0)


def test_a_name_makes_a_chain_without_any_block() -> None:
    """A client that names its chain is believed, and its names are its own."""
    records = [
        served("a", 0, 0, 3, chain="c"),
        served("b", 4, 4, 5, chain="c"),
        served("z", 6, 6, 7, chain="c", client="other"),
    ]
    assert follows(records) == (None, 0, None)


def test_the_prompt_has_the_size_that_the_engine_counted() -> None:
    """Else the one that was estimated."""
    assert size(served("a", 0, 0, 1, prompt=12, prompt_tokens=20)) == 12
    assert size(served("a", 0, 0, 1, prompt=0, prompt_tokens=20)) == 20


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 5), st.lists(st.integers(1, 3), max_size=4)), max_size=12
    )
)
def test_whatever_arrives_the_chains_are_apart(facts: list[tuple[int, int, list[int]]]) -> None:
    """Each request follows an earlier one that had ended, and is a step of one chain at most."""
    records = [
        step(f"r{index}", start, start + took, *blocks)
        for index, (start, took, blocks) in enumerate(sorted(facts))
    ]
    parents = follows(records)
    for index, parent in enumerate(parents):
        assert parent is None or (
            parent < index and records[parent].ended_at <= records[index].arrived_at + 0.05
        )
    steps = [one for chain in find_chains(records, parents) for one in chain.steps]
    assert len(steps) == len(set(steps))
    assert critical_path(records, parents).span_s >= max(
        (one.service_s or 0.0 for one in records), default=0.0
    )


def test_an_agent_waits_for_its_sub_agents() -> None:
    """Two of them, of two steps and of one, begin after its first reply; it goes on when both are over."""
    records = [
        step("main", 0, 3, 1),
        step("x1", 3.5, 6, 7),
        step("y", 3.6, 20, 8),
        step("x2", 7, 12, 7, 9),
        step("on", 20.5, 24, 1, 2),
    ]
    parents = follows(records)
    assert parents == (None, None, None, 1, 0)
    assert waits_for(records, parents) == ((), (0,), (0,), (1,), (0, 3, 2))
    path = critical_path(records, parents)
    assert path.steps == (0, 2, 4)
    assert (round(path.tool_s, 6), round(path.span_s, 6)) == (1.1, 24.0)
    assert sum(chain.tool_s for chain in find_chains(records, parents)) == 1.5


def test_what_goes_on_beside_a_tool_is_no_sub_agent() -> None:
    """One that began before the reply, one that went on after the step came, one over long before it."""
    records = [
        step("a", 0, 3, 1),
        step("before", 2, 9, 7),
        step("short", 4, 5, 6),
        step("after", 5, 11, 8),
        step("b", 10, 14, 1, 2),
    ]
    assert waits_for(records, follows(records)) == ((), (), (), (), (0,))

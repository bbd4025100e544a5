"""Which requests are steps of one chain, and how many more are likely."""

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.chains import (
    GROWTH_TOKENS,
    MOST_CHAINS,
    MOST_TIMES,
    PAUSE_TIMES,
    PRIOR_STEPS,
    SHORTEST_PAUSE_S,
    SILENT_S,
    STEPS_BEFORE,
    THINK_S,
    ChainTable,
)
from pairproxy.core.models import NodeId, Request, RequestId
from tests.core.told import A, B, ask, at

TOOLS = frozenset({"tools"})


def step(name: str, *prefix: int, prompt: int = 4000, origin: NodeId | None = None) -> Request:
    """A step of an agent whose prompt has these blocks."""
    return ask(name, prompt=prompt, prefix=prefix, needs=TOOLS, origin=origin)


def done(table: ChainTable, name: str, at_s: float, tokens: int = 300) -> None:
    """A step is over."""
    table.ended(RequestId(name), at_s, tokens)


def test_a_prompt_that_begins_with_one_before_is_the_next_step() -> None:
    """A prompt that goes on from the prompt of a step that is over belongs to the same chain."""
    table = ChainTable()
    table.arrived(step("one", 1, 2, 3), 0.0)
    done(table, "one", 5.0)
    table.arrived(step("two", 1, 2, 3, 4, 5), 9.0)
    chain = table.of(RequestId("two"))
    assert chain is not None
    assert chain.steps == 2
    assert len(table.active(9.0)) == 1


def test_the_last_block_may_have_changed() -> None:
    """A prompt that goes on in the middle of the last block is a next step, too."""
    table = ChainTable()
    table.arrived(step("one", 1, 2, 3), 0.0)
    done(table, "one", 5.0)
    table.arrived(step("two", 1, 2, 30, 40), 9.0)
    chain = table.of(RequestId("two"))
    assert chain is not None
    assert chain.steps == 2


def test_a_prompt_that_only_shares_its_start_is_another_chain() -> None:
    """Two agents with the same tools and system prompt are two chains."""
    table = ChainTable()
    table.arrived(step("one", 1, 2, 3, 4), 0.0)
    done(table, "one", 5.0)
    table.arrived(step("other", 1, 2, 30, 40), 6.0)
    assert len(table.active(6.0)) == 2


def test_a_step_that_runs_is_forked_not_continued() -> None:
    """Two requests that go on from the same prompt at once are two chains."""
    table = ChainTable()
    table.arrived(step("one", 1, 2, 3), 0.0)
    table.arrived(step("fork", 1, 2, 3, 4), 0.1)
    assert len(table.active(0.1)) == 2


def test_a_name_tells_what_prompts_do_not() -> None:
    """Requests of one client with one name of a chain are its steps, whatever their prompts are."""
    table = ChainTable()
    for number in range(3):
        table.arrived(ask(f"step{number}", prompt=50, client="c", chain="x"), float(number))
        done(table, f"step{number}", number + 0.5)
    table.arrived(ask("theirs", prompt=50, client="d", chain="x"), 3.0)
    assert sorted(chain.steps for chain in table.active(3.0)) == [1, 3]


def test_what_brings_no_tools_is_a_chat() -> None:
    """A conversation without tools or a name is no chain, however long it goes on."""
    table = ChainTable()
    table.arrived(ask("one", prompt=4000, prefix=(1, 2, 3)), 0.0)
    done(table, "one", 1.0)
    table.arrived(ask("two", prompt=4500, prefix=(1, 2, 3, 4)), 2.0)
    assert table.of(RequestId("two")) is None
    assert table.active(2.0) == []


def test_guests_and_short_prompts_are_no_chains() -> None:
    """A peer's request belongs to its origin's chain; a short prompt is cheap to read anywhere."""
    table = ChainTable()
    table.arrived(step("guest", 1, 2, origin=B), 0.0)
    table.arrived(step("short", 1, 2, prompt=100), 0.0)
    assert table.active(0.0) == []


def test_the_steps_still_to_come_follow_the_chains_that_ended() -> None:
    """Before any chain has ended the published lengths count; then those that were seen, more and more."""
    table = ChainTable()
    table.arrived(step("one", 1, 2, 3), 0.0)
    (chain,) = table.active(0.0)
    assert table.more_steps(chain) == [total - 1 for total in STEPS_BEFORE]
    done(table, "one", 1.0)
    for number in range(64):
        table.arrived(step(f"other{number}", 10 * number + 1000, 10 * number + 1001), 2.0)
        done(table, f"other{number}", 3.0)
    table.arrived(step("late", 7, 8, 9), 4.0 + SILENT_S)
    chain = table.active(4.0 + SILENT_S)[-1]
    assert set(table.more_steps(chain)) == {0}


def test_a_chain_longer_than_all_that_were_seen_may_still_go_on() -> None:
    """Of a chain longer than any before, nothing but its length tells how long it may yet be."""
    table = ChainTable()
    for number in range(40):
        table.arrived(step(f"s{number}", *range(number + 2)), float(number))
        done(table, f"s{number}", number + 0.5)
    (chain,) = table.active(40.0)
    assert chain.steps == 40
    assert table.more_steps(chain) == [0, 10, 20, 40]


def test_a_chain_that_pauses_too_long_is_reckoned_with_no_more() -> None:
    """A pause much longer than tools take means that the chain has ended, though it may come back."""
    table = ChainTable()
    table.arrived(step("one", 1, 2, 3), 0.0)
    done(table, "one", 10.0)
    longest_s = max(PAUSE_TIMES * THINK_S, SHORTEST_PAUSE_S)
    assert len(table.active(10.0 + longest_s)) == 1
    assert table.active(10.1 + longest_s) == []
    table.arrived(step("two", 1, 2, 3, 4), 20.0 + longest_s)
    assert [chain.steps for chain in table.active(20.0 + longest_s)] == [2]


def test_a_chain_that_has_summed_up_is_over() -> None:
    """After a reply of many times the usual length no more is expected of a chain; but it may come back."""
    table = ChainTable()
    table.arrived(step("one", 1, 2, 3), 0.0)
    done(table, "one", 40.0, tokens=3000)
    assert table.active(41.0) == []
    table.arrived(step("two", 1, 2, 3, 4), 45.0)
    assert [chain.steps for chain in table.active(45.0)] == [2]


def test_one_huge_step_does_not_make_all_chains_huge() -> None:
    """A step that reads a large file counts as three usual ones in what steps are expected to read."""
    table = ChainTable()
    table.arrived(step("one", 1, 2, 3), 0.0)
    done(table, "one", 5.0)
    table.arrived(step("two", 1, 2, 3, 4, 5, prompt=104_000), 9.0)
    assert table.habits.growth.value == GROWTH_TOKENS * (PRIOR_STEPS + MOST_TIMES) / (PRIOR_STEPS + 1.0)


def test_a_long_step_is_no_silence() -> None:
    """A chain whose step runs for longer than a chain may be silent is known when the next step comes."""
    table = ChainTable()
    table.arrived(step("one", 1, 2, 3), 0.0)
    table.sent(RequestId("one"), at(A))
    table.arrived(step("other", 7, 8, 9), 2.0 * SILENT_S)
    done(table, "one", 2.0 * SILENT_S + 1.0)
    table.arrived(step("two", 1, 2, 3, 4), 2.0 * SILENT_S + 2.0)
    chain = table.of(RequestId("two"))
    assert chain is not None
    assert chain.steps == 2
    assert chain.place == at(A)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6), st.booleans()), max_size=400))
def test_the_table_stays_bounded_and_consistent(told: list[tuple[int, int, bool]]) -> None:
    """Whatever arrives, at most MOST_CHAINS are known, and each waiting step belongs to a known chain."""
    table = ChainTable()
    now = 0.0
    for number, (start, length, ends) in enumerate(told):
        now += start
        table.arrived(step(f"r{number}", *range(1000 * start, 1000 * start + length)), now)
        if ends:
            done(table, f"r{number}", now + 1.0)
        active = table.active(now)
        assert len(active) <= MOST_CHAINS
        for chain in active:
            assert chain.step is None or table.of(chain.step) is chain


def test_more_chains_than_are_kept_push_out_the_longest_silent() -> None:
    """The two hundred and fifty-seventh chain takes the place of the one that was silent longest."""
    table = ChainTable()
    for number in range(MOST_CHAINS + 1):
        table.arrived(step(f"r{number}", 2 * number, 2 * number + 1), 0.0)
    assert table.of(RequestId("r0")) is None
    assert table.of(RequestId("r1")) is not None

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.models import BLOCK_TOKENS, AttemptId, RequestId
from pairproxy.core.simulated_cache import SimulatedCache


def attempt(name: str) -> AttemptId:
    """The first attempt of a request."""
    return AttemptId(RequestId(name), 1)


def cache(blocks: int) -> SimulatedCache:
    """One with room for so many blocks."""
    return SimulatedCache(blocks * BLOCK_TOKENS)


def read(of: SimulatedCache, name: str, *blocks: int) -> int:
    """A request that is read, answered and gone; returns how many of its blocks were cached."""
    found = of.hold(attempt(name), blocks)
    of.keep(attempt(name), blocks)
    of.release(attempt(name))
    return found // BLOCK_TOKENS


def test_what_was_read_is_found_from_the_start_on() -> None:
    """Up to the first block that differs."""
    some = cache(8)
    assert read(some, "r1", 1, 2, 3) == 0
    assert read(some, "r2", 1, 2, 4) == 2
    assert read(some, "r3", 9, 2, 3) == 0
    assert some.tokens == 5 * BLOCK_TOKENS


def test_the_end_of_what_was_used_longest_ago_goes_first() -> None:
    """What is used again stays, and a start outlives its end."""
    some = cache(4)
    read(some, "r1", 1, 2)
    read(some, "r2", 3, 4)
    read(some, "r3", 1)
    read(some, "r4", 5)
    assert read(some, "r5", 3, 4) == 2
    assert read(some, "r6", 1, 2) == 1


def test_what_a_running_request_uses_is_not_thrown_out() -> None:
    """However much others read meanwhile; afterwards there is room again for no more than before."""
    some = cache(2)
    some.keep(attempt("long"), (1, 2))
    assert read(some, "r1", 3, 4) == 0
    assert some.hold(attempt("r2"), (1, 2, 3)) == 2 * BLOCK_TOKENS
    some.keep(attempt("r2"), (1, 2, 3))
    assert some.tokens == 3 * BLOCK_TOKENS
    some.release(attempt("long"))
    some.release(attempt("r2"))
    assert some.tokens == 2 * BLOCK_TOKENS


def test_giving_back_what_is_not_held_changes_nothing() -> None:
    """As for a request that never began to read."""
    some = cache(2)
    read(some, "r1", 1)
    some.release(attempt("r2"))
    assert some.tokens == BLOCK_TOKENS


@given(prompts=st.lists(st.lists(st.integers(1, 3), max_size=6), max_size=20), room=st.integers(0, 8))
def test_an_idle_cache_keeps_to_its_room(prompts: list[list[int]], room: int) -> None:
    """And what it says it holds of a prompt is a start of one that was read before."""
    some = cache(room)
    before: list[list[int]] = [[]]
    for index, prompt in enumerate(prompts):
        found = read(some, f"r{index}", *(hash(tuple(prompt[: end + 1])) for end in range(len(prompt))))
        assert prompt[:found] in [one[:found] for one in before]
        assert some.tokens <= room * BLOCK_TOKENS
        before.append(prompt)

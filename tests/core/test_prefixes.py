from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.models import BLOCK_TOKENS
from pairproxy.core.prefixes import (
    MOST_BLOCKS,
    PRIOR_CONTEXT_TOKENS,
    TOKENS,
    BlockCache,
    Pending,
    Prefix,
    PromptCache,
    Size,
    cache_of,
    matched,
    size_of,
)
from tests.core.told import A, B, M, at

ROOT = (1, 2, 3)
ONE, OTHER = (*ROOT, 4, 5), (*ROOT, 6, 7)

PROMPTS = st.lists(
    st.builds(
        lambda path: tuple(hash(tuple(path[: n + 1])) & 0xFFFF_FFFF for n in range(len(path))),
        st.lists(st.integers(0, 2), max_size=9),
    ),
    max_size=30,
)
"""Prompts over few words: many begin alike. Each hash stands for all words up to its own."""


def plain_match(prefix: Prefix, held: object) -> int:
    """The count of blocks from the first on that are held, found one by one."""
    count = 0
    while count < len(prefix) and prefix[count] in held:  # type: ignore[operator]
        count += 1
    return count


@pytest.mark.parametrize(
    ("kind", "slots", "context", "told", "expected"),
    [
        ("openai", 16, 8192, None, Size(TOKENS["openai"] // BLOCK_TOKENS, None)),
        ("openai", 16, 8192, 640_000, Size(10_000, None)),
        ("openai", 16, 8192, 640_000_000, Size(MOST_BLOCKS, None)),
        ("paced", 4, None, 0, Size(0, None)),
        ("ollama", 2, 4096, None, Size(2 * 64, 2)),
        ("lmstudio", 4, None, None, Size(4 * PRIOR_CONTEXT_TOKENS // BLOCK_TOKENS, 4)),
        ("llamacpp", 4, 16_384, None, Size((4 * 16_384 + TOKENS["llamacpp"]) // BLOCK_TOKENS, None)),
        ("embedded", 1, 4096, 6400, Size(64 + 100, None)),
    ],
)
def test_each_kind_of_engine_keeps_what_it_keeps(
    kind: str, slots: int, context: int | None, told: int | None, expected: Size
) -> None:
    """Blocks, or the last prompt of each slot, or prompts beyond the slots; what it tells itself counts."""
    assert size_of(kind, slots, context, told) == expected
    assert isinstance(cache_of(kind, expected), BlockCache) == (kind in ("openai", "paced"))


@given(PROMPTS, st.integers(0, 12))
def test_blocks_are_kept_once_and_from_the_first_on(prompts: list[Prefix], room: int) -> None:
    """Never more than there is room for; what went is told; a match is what a search one by one finds."""
    cache, told = BlockCache(Size(room, None)), set[int]()
    for prefix in prompts:
        told |= set(prefix[:room])
        told -= set(cache.insert(prefix))
        assert told == set(cache.held)
        assert len(cache.held) <= room
        assert matched(prefix, cache.held) == min(len(prefix), room)
        for earlier in prompts:
            assert matched(earlier, cache.held) == plain_match(earlier, cache.held)


@given(PROMPTS, st.integers(1, 20), st.sampled_from([None, 1, 2, 3]))
def test_prompts_are_kept_whole_or_not_at_all(prompts: list[Prefix], room: int, most: int | None) -> None:
    """As many as there are slots; what went is told; a match is what a search one by one finds."""
    cache, told = PromptCache(Size(room, most)), set[int]()
    for prefix in prompts:
        told |= set(prefix[:room])
        told -= set(cache.insert(prefix))
        kept = list(cache.prompts.values())
        assert told == {one for prompt in kept for one in prompt} == set(cache.held)
        assert sum(map(len, kept)) == cache.blocks <= room
        assert most is None or len(kept) <= most
        assert not prefix or kept[-1] == prefix[:room]
        for earlier in prompts:
            assert matched(earlier, cache.held) == plain_match(earlier, cache.held)


def test_a_prompt_takes_the_place_of_what_it_continues() -> None:
    """The slot goes on with it; a prompt that only begins like another needs a slot of its own."""
    cache = PromptCache(Size(100, 2))
    assert cache.insert(ROOT) == cache.insert(ONE) == []
    assert list(cache.prompts.values()) == [ONE]
    assert cache.insert(OTHER) == []
    assert cache.insert((8, 9)) == [4, 5]
    assert matched(ONE, cache.held) == len(ROOT)


def test_the_least_recently_used_block_goes_first_and_shared_ones_last() -> None:
    """A beginning that two prompts share outlives the end of the older one."""
    cache = BlockCache(Size(7, None))
    assert cache.insert(ONE) == cache.insert(OTHER) == []
    assert cache.insert((8,)) == [5]
    assert cache.insert((9,)) == [4]
    assert matched(ONE, cache.held) == len(ROOT)


@given(PROMPTS.filter(any))
def test_what_is_under_way_counts_until_the_last_of_it_ends(prompts: list[Prefix]) -> None:
    """Two attempts with one prompt are two; nothing is left when all have ended."""
    pending, left = Pending(), Counter[int]()
    for prefix in prompts:
        pending.add(at(A), M, prefix)
        left.update(prefix)
    for prefix in prompts:
        assert pending.matched(at(A), M, prefix) == len(prefix)
        assert pending.matched(at(B), M, prefix) == 0
        pending.remove(at(A), M, prefix)
        left -= Counter(prefix)
        for one in prompts:
            assert pending.matched(at(A), M, one) == plain_match(one, left)
    pending.remove(at(A), M, ONE)
    assert pending.matched(at(A), M, ONE) == 0


def test_blocks_that_are_no_chain_do_no_harm() -> None:
    """Two hashes may be equal by chance, and a block known without those before it."""
    pending = Pending()
    for cache in (cache_of("openai", Size(4, None)), cache_of("ollama", Size(6, 2))):
        for prefix in ((1, 2, 3), (0, 2, 2), (2, 0, 3), (5, 6, 7), (5, 0, 6, 7), (3, 0, 3)):
            pending.add(at(A), M, prefix)
            cache.insert(prefix)
            assert len(cache.held) <= 6
            pending.remove(at(A), M, (9, 8, 7, prefix[-1]))
            pending.remove(at(A), M, prefix)

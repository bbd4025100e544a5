from hypothesis import given
from hypothesis import strategies as st

from pairproxy.engines.paced_cache import BLOCK_TOKENS, CHARS_PER_TOKEN, PrefixCache, count_tokens

BLOCK = BLOCK_TOKENS * CHARS_PER_TOKEN
TEXTS = st.text("ab", max_size=5 * BLOCK)


def test_tokens_are_a_quarter_of_the_characters() -> None:
    """Rounded up, and never none."""
    assert [count_tokens("x" * length) for length in (0, 1, 4, 5)] == [1, 1, 1, 2]


def test_a_repeated_start_is_found() -> None:
    """Whole blocks that both texts begin with are cached."""
    cache = PrefixCache(1000)
    cache.add("s" * 2 * BLOCK + "first")
    assert cache.match("s" * 2 * BLOCK + "second") == 2 * BLOCK_TOKENS


def test_the_same_block_elsewhere_is_not_the_same() -> None:
    """A block counts only after the same beginning."""
    cache = PrefixCache(1000)
    cache.add("a" * BLOCK + "b" * BLOCK)
    assert cache.match("c" * BLOCK + "b" * BLOCK) == 0


def test_the_last_token_is_always_read() -> None:
    """A prompt that is wholly cached still costs one token."""
    cache = PrefixCache(1000)
    cache.add("s" * 2 * BLOCK)
    assert cache.match("s" * 2 * BLOCK) == 2 * BLOCK_TOKENS - 1


def test_the_least_recently_used_goes_first() -> None:
    """A full cache forgets what was not used for longest, and ends before beginnings."""
    cache = PrefixCache(3 * BLOCK_TOKENS)
    cache.add("a" * 2 * BLOCK)
    cache.add("b" * BLOCK)
    cache.add("a" * BLOCK)
    cache.add("c" * BLOCK)
    assert cache.match("a" * 2 * BLOCK + "x") == BLOCK_TOKENS
    assert cache.match("b" * BLOCK + "x") == BLOCK_TOKENS
    assert cache.match("c" * BLOCK + "x") == BLOCK_TOKENS


def test_without_room_nothing_is_kept() -> None:
    """A cache of 0 tokens never helps."""
    cache = PrefixCache(0)
    cache.add("s" * 9 * BLOCK)
    assert cache.match("s" * 9 * BLOCK) == 0


@given(st.lists(TEXTS, max_size=6), TEXTS)
def test_never_more_than_the_common_start(added: list[str], text: str) -> None:
    """What is found was really read before, at the start of something."""
    cache = PrefixCache(4 * BLOCK_TOKENS)
    for earlier in added:
        cache.add(earlier)
    found = text[: cache.match(text) * CHARS_PER_TOKEN]
    assert not found or any(earlier.startswith(found) for earlier in added)

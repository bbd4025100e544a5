from pairproxy.core.workloads.texts import Texts, start_blocks


def test_a_common_start_is_the_same_for_all() -> None:
    """As far as it goes in full blocks; another start has nothing of it."""
    assert start_blocks(1, 320)[:3] == start_blocks(1, 200)
    assert len(start_blocks(1, 200)) == 3
    assert not set(start_blocks(1, 6400)) & set(start_blocks(2, 6400))


def test_what_is_added_is_nobody_elses() -> None:
    """Blocks look like hashes of 64 bits and are never handed out twice."""
    first, second = Texts(), Texts(1)
    blocks = [*first.fresh(500), *first.fresh(500), *second.fresh(500), *start_blocks(1, 32_000)]
    assert len(set(blocks)) == 2000
    assert all(0 <= block < 1 << 64 for block in blocks)
    assert max(blocks) > 1 << 63


def test_a_text_grows_at_its_end() -> None:
    """To the full blocks of so many tokens; a shorter one is its start."""
    texts = Texts()
    text = texts.grown(start_blocks(1, 640), 1000)
    assert (text[:10], len(text)) == (start_blocks(1, 640), 15)
    assert texts.grown(text, 300) == text[:4]

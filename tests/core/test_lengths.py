import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.lengths import ENOUGH, KINDS, MOST_TOKENS, REMEMBERED, Lengths, LengthTable
from pairproxy.core.models import ModelName, Request
from tests.core.told import M, ask

OTHER = ModelName("other")


def test_before_any_reply_there_is_the_prior() -> None:
    """Its median is 300 tokens and one in twenty is longer than five times that; a limit is the best hint."""
    none = Lengths()
    assert none.quantile(0.5) == pytest.approx(300.0, rel=0.1)
    assert none.quantile(0.95) == pytest.approx(1550.0, rel=0.15)
    assert 400.0 < none.mean() < 500.0
    assert [none.mean(limit) for limit in (0, 7, 100)] == [0.0, 7.0, 100.0]


def test_it_is_a_distribution() -> None:
    """Quantiles and means come from what was seen; the prior weighs as much as one reply."""
    lengths = Lengths(range(1, 101))
    assert lengths.quantile(0.5) == pytest.approx(50, abs=2)
    assert lengths.quantile(0.95) == pytest.approx(95, abs=3)
    assert lengths.quantile(0.95, 60) == 60.0
    assert lengths.mean() == pytest.approx((5050 + Lengths().mean()) / 101)
    assert lengths.mean(50) == pytest.approx(
        (sum(min(one, 50) for one in range(1, 101)) + 50) / 101, rel=0.01
    )


def test_equal_replies_become_a_certainty() -> None:
    """Not from the first one on."""
    assert Lengths([150]).quantile(0.95) > 500.0
    assert Lengths([150] * 5).quantile(0.95) > 250.0
    assert Lengths([150] * 100).quantile(0.95) == 150.0


def test_the_rest_of_what_runs_depends_on_what_it_has_done() -> None:
    """It can be no longer than the longest like it; beyond all of them, it grows with what is done."""
    lengths = Lengths([100] * 50 + [1000] * 50)
    assert lengths.remaining(0.0) == pytest.approx(lengths.mean(), rel=0.01)
    assert lengths.remaining(200.0) == pytest.approx(800.0, rel=0.02)
    assert lengths.remaining(200.0, 500) == pytest.approx(300.0, rel=0.02)
    assert lengths.remaining(10_000.0) == 5_000.0
    assert lengths.remaining(10_000.0, 10_050) == 50.0
    assert lengths.remaining(50.0, 50) == 0.0


@given(
    st.lists(st.integers(1, 10**6), max_size=30),
    st.floats(0.0, 1e7),
    st.none() | st.integers(0, 10**6),
    st.randoms(),
)
def test_its_answers_fit_together(seen: list[int], done: float, limit: int | None, random: Random) -> None:
    """Nothing is negative or beyond the limit, quantiles grow, and the rest is the conditional mean."""
    lengths = Lengths(seen)
    parts = sorted(random.random() for _ in range(4))
    quantiles = [lengths.quantile(part, limit) for part in [0.0, *parts, 1.0]]
    assert quantiles == sorted(quantiles)
    assert lengths.remaining(done, limit) >= 0.0
    if limit is not None:
        assert max(quantiles) <= limit
        assert lengths.mean(limit) <= limit
        assert done >= limit or done + lengths.remaining(done, limit) <= limit + 1e-6


@given(
    st.lists(st.integers(1, 3000), max_size=60),
    st.lists(st.integers(1, 3000), max_size=60),
    st.floats(0.0, 4000.0),
    st.none() | st.integers(0, 4000),
)
def test_its_answers_are_those_of_all_lengths_taken_one_by_one(
    seen: list[int], like: list[int], done: float, limit: int | None
) -> None:
    """Whatever is kept apart, or reckoned later: each reply has weight one, what was expected ten in all."""
    lengths, most = Lengths(seen, Lengths(like)), math.inf if limit is None else float(limit)
    weighed = [(float(one), 1.0) for one in seen] + [(one, 0.25) for one in Lengths(like).parts()]
    total = sum(weight for _, weight in weighed)
    if seen or limit is None:
        mean = sum(min(one, most) * weight for one, weight in weighed) / total
        assert lengths.mean(limit) == pytest.approx(mean)
    longer = [(one, weight) for one, weight in weighed if one > done]
    if longer and done < most:
        rest = sum((min(one, most) - done) * weight for one, weight in longer)
        rest /= sum(weight for _, weight in longer)
        assert lengths.remaining(done, limit) == pytest.approx(rest, abs=1e-6)
    for part in (0.1, 0.5, 0.9):
        middle = lengths.quantile(part)
        assert sum(weight for one, weight in weighed if one < middle) <= part * total + 1e-6
        assert sum(weight for one, weight in weighed if one <= middle) >= part * total - 1e-6


def table(*replies: tuple[tuple[int, ...], str, int]) -> LengthTable:
    """What is known after these: (prefix, client, tokens), the oldest first."""
    known = LengthTable()
    for prefix, client, tokens in replies:
        known.learn(ask("r", prefix=prefix, client=client), tokens)
    return known


def test_the_length_of_replies_is_learned_per_model() -> None:
    """What came long ago is forgotten, another model is not touched, and no reply says nothing."""
    known = table(*[((), "", 1000)] * REMEMBERED, *[((), "", 20)] * REMEMBERED, ((), "", 0))
    assert known.of(ask("r")).quantile(0.99) == 20.0
    assert known.of(ask("r", model=OTHER)).mean() == Lengths().mean()
    assert known.models() == {M: (20,) * REMEMBERED}


def test_what_no_model_writes_teaches_nothing() -> None:
    """A peer may say of its reply what it likes."""
    known = table(((), "", 20), ((), "", MOST_TOKENS + 1))
    assert known.models() == {M: (20,)}


def test_prompts_that_start_alike_are_a_kind_of_their_own() -> None:
    """Past what all of them share: two kinds of agents under one system prompt are told apart."""
    short, long = (1, 2, 3, 4), (1, 2, 8, 9)
    known = table(*[(short, "", 20), (long, "", 900)] * 20)
    assert known.of(ask("r", prefix=(*short, 77))).quantile(0.5) == 20.0
    assert known.of(ask("r", prefix=(*long, 78))).quantile(0.5) == 900.0
    both = known.of(ask("r", prefix=(1, 2, 55, 56)))
    assert (both.quantile(0.2), both.quantile(0.8)) == (20.0, 900.0)


def test_a_kind_needs_a_few_replies() -> None:
    """Until then it is like all the others of its model, and then more and more like itself."""
    few = [((5,), "", 20)] * (ENOUGH - 1)
    many = [((6,), "", 900)] * 20
    like = ask("r", prefix=(5,))
    assert table(*many, *few).of(like).mean() == table(*many, *few).of(ask("r")).mean()
    means = [table(*many, *[((5,), "", 20)] * count).of(like).mean() for count in (ENOUGH, 10, 50, 200)]
    assert means == sorted(means, reverse=True)
    assert 20.0 <= means[-1] < 100.0 < means[0] < 800.0


def test_a_client_is_a_kind_where_the_prompt_says_nothing() -> None:
    """The one that asks for titles, and the one that writes novels."""
    known = table(*[((), "titles", 8), ((), "novels", 3000)] * 20)
    assert known.of(ask("r", client="titles")).quantile(0.5) == 8.0
    assert known.of(ask("r", client="novels", prefix=(1,))).quantile(0.5) == 3000.0


def test_each_reply_counts_at_once() -> None:
    """Also for a request that was asked about just before, and of whoever was the last to get one."""
    known, request = LengthTable(), ask("r", client="c")
    for tokens, client in ((10, "c"), (10, "c"), (10, "c"), (900, "d"), (900, "d"), (10, "c"), (10, "c")):
        before = known.of(request).mean()
        known.learn(ask("r0", client=client), tokens)
        assert known.of(request).mean() != before
    assert known.of(request).quantile(0.5) == 10.0
    assert [*known._seen] == [(M, "d", 0), (M, "c", 0), (M, "", 0)]


def test_what_is_known_is_bounded() -> None:
    """A client that never starts a prompt twice alike does not cost more and more."""
    known = table(*[((index,), "", 10) for index in range(3 * KINDS)])
    assert len(known._seen) <= KINDS
    for index in range(3000):
        known.of(ask("r", prefix=(index,)))
    assert len(known._answers) <= 1024
    assert M in known.models()


def test_what_was_kept_of_a_model_is_taken_back() -> None:
    """If nothing is known of it yet; it then counts like what was seen."""
    known = LengthTable()
    known.restore(M, [20] * 10)
    known.restore(M, [900] * 10)
    assert known.of(ask("r")).quantile(0.5) == 20.0


def test_what_is_kept_between_two_replies_is_as_if_made_anew() -> None:
    """Whoever is asked after each reply says the same as one who is asked at the end only."""
    random, asked, lessons = Random(7), LengthTable(), list[tuple[Request, int]]()
    requests = [ask("r", client=one, prefix=blocks) for one in "cd" for blocks in ((), (1,), (1, 2), (3,))]
    for step in range(REMEMBERED + 60):
        lessons.append((random.choice(requests), int(random.lognormvariate(5.0, 1.0))))
        asked.learn(*lessons[-1])
        told = [asked.of(request).mean() for request in requests]
        if step % 20:
            continue
        fresh = LengthTable()
        for lesson in lessons:
            fresh.learn(*lesson)
        assert told == [fresh.of(request).mean() for request in requests]
    last = Lengths([tokens for _, tokens in lessons[-REMEMBERED:]])
    assert asked.of(ask("r", client="new")).mean() == pytest.approx(last.mean())

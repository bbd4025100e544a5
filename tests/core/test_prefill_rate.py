import math

import pytest

from pairproxy.core.prefill_rate import CONFIRMS_TIMES, LEARNING_WEIGHT, PLAUSIBLE_TIMES, PrefillRate, Rate


def test_the_first_sample_replaces_the_prior_and_the_next_ones_move_it() -> None:
    """By a fifth of the way each, in logarithms."""
    rate = Rate()
    assert rate.value(7.0) == 7.0
    rate.learn(100.0)
    assert rate.value(7.0) == pytest.approx(100.0)
    rate.learn(120.0)
    assert rate.value(7.0) == pytest.approx(100.0 * 1.2**LEARNING_WEIGHT)


def test_one_sample_counts_as_a_factor_of_two_at_most() -> None:
    """A hiccup of a minute changes little."""
    rate = Rate()
    rate.learn(100.0)
    rate.learn(0.001)
    assert rate.value(7.0) == pytest.approx(100.0 * 0.5**LEARNING_WEIGHT)


def test_a_sample_that_leaves_something_open_lowers_or_confirms() -> None:
    """Faster than the last proven mean by more than noise, it is not taken in."""
    rate = PrefillRate()
    rate.prove(1000.0, LEARNING_WEIGHT, is_enough=True)
    rate.lower(1000.0 * CONFIRMS_TIMES * 1.01, LEARNING_WEIGHT, 500.0)
    assert rate.value(0.0) == pytest.approx(1000.0)
    rate.lower(800.0, LEARNING_WEIGHT, 500.0)
    assert rate.value(0.0) < 1000.0
    rate.lower(1000.0, 1.0, 500.0)
    assert rate.value(0.0) == pytest.approx(1000.0)


def test_a_first_sample_must_be_plausible() -> None:
    """Many times the prior is a prompt that was cached."""
    rate = PrefillRate()
    rate.lower(PLAUSIBLE_TIMES * 501.0, LEARNING_WEIGHT, 500.0)
    assert not rate.is_measured
    rate.lower(2000.0, LEARNING_WEIGHT, 500.0)
    assert (rate.is_measured, rate.is_proven) == (True, False)
    assert rate.log_ceiling == pytest.approx(math.log(2000.0))


def test_proof_replaces_what_was_not_proven() -> None:
    """If it is enough; a few tokens count only a little."""
    rate = PrefillRate()
    rate.lower(8000.0, LEARNING_WEIGHT, 500.0)
    rate.prove(500.0, 0.01, is_enough=False)
    assert rate.value(0.0) > 7000.0
    rate.prove(500.0, LEARNING_WEIGHT, is_enough=True)
    assert rate.value(0.0) == pytest.approx(500.0)

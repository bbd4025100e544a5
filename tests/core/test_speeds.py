import math

import pytest

from pairproxy.core.costs import PRIORS
from pairproxy.core.models import Rates, Usage
from pairproxy.core.prefill_rate import CONFIRMS_TIMES
from pairproxy.core.speeds import MIN_DECODE_TOKENS, Speed
from pairproxy.core.timing import Timing

PRIOR = PRIORS["ollama"]


def learned(*usages: Usage, ttft_s: float = 0.0, is_cold: bool = False) -> Speed:
    """What is known after these."""
    speed = Speed()
    for usage in usages:
        speed.learn(usage, Timing(ttft_s), PRIOR, is_cold=is_cold)
    return speed


def prefill(speed: Speed) -> float:
    """The rate at which prompts are read, as known."""
    return speed.rates(PRIOR).prefill


def test_a_short_prompt_counts_for_less() -> None:
    """It is dominated by fixed costs."""
    speed = learned(Usage(prompt_tokens=2560), ttft_s=1.0)
    speed.learn(Usage(prompt_tokens=32), Timing(1.0), PRIOR, is_cold=False)
    assert prefill(speed) > 0.85 * 2560


def test_a_prompt_that_comes_again_is_not_taken_for_speed() -> None:
    """Who does not say what was cached teaches a slower rate or the same, never a faster one."""
    speed = learned(Usage(prompt_tokens=1000, prefill_s=1.0))
    for _ in range(25):
        speed.learn(Usage(prompt_tokens=1000, prefill_s=0.006), Timing(), PRIOR, is_cold=False)
        speed.learn(Usage(prompt_tokens=1000), Timing(0.006), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(1000.0)
    speed.learn(Usage(prompt_tokens=1000, prefill_s=2.0), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(1000 * 0.5**0.2)


@pytest.mark.parametrize("how", ["known to be cold", "just loaded"])
def test_an_engine_is_found_to_be_faster_by_a_prompt_that_it_cannot_have_had(how: str) -> None:
    """One that it was never sent, or any after its model was loaded: that leaves nothing open."""
    speed = learned(Usage(prompt_tokens=1000, prefill_s=1.0))
    load_s = 4.0 if how == "just loaded" else 0.001
    for _ in range(30):
        fast = Usage(prompt_tokens=1000, prefill_s=0.25, load_s=load_s)
        speed.learn(fast, Timing(), PRIOR, is_cold=how == "known to be cold")
    assert prefill(speed) == pytest.approx(4000.0, rel=0.01)


def test_partly_cached_prompts_do_not_creep_up() -> None:
    """Each confirms, together they raise by no more than the noise of one."""
    speed = learned(Usage(prompt_tokens=1000, prefill_s=1.0))
    for _ in range(200):
        usage = Usage(prompt_tokens=1000, prefill_s=1000 / (1.1 * prefill(speed)))
        speed.learn(usage, Timing(), PRIOR, is_cold=False)
    assert prefill(speed) <= 1000 * CONFIRMS_TIMES * 1.001


def test_one_slow_reply_does_not_hold_a_rate_down_for_good() -> None:
    """What was measured before is still believed, and so is a first rate below the prior's."""
    speed = learned(
        Usage(prompt_tokens=1000, prefill_s=1.0), *[Usage(prompt_tokens=1000, prefill_s=30.0)] * 5
    )
    assert prefill(speed) < 600.0
    slow_first = learned(Usage(prompt_tokens=1000, prefill_s=30.0))
    for _ in range(60):
        speed.learn(Usage(prompt_tokens=1000, prefill_s=1.0), Timing(), PRIOR, is_cold=False)
        slow_first.learn(Usage(prompt_tokens=1000, prefill_s=2.0), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(1000.0, rel=0.01)
    assert prefill(slow_first) == pytest.approx(500.0, rel=0.01)


def test_a_first_rate_beyond_belief_is_no_measurement() -> None:
    """A daemon that was restarted meets an engine that has the prompt already."""
    speed = learned(Usage(prompt_tokens=1117, prefill_s=0.006))
    assert prefill(speed) == PRIOR.prefill
    speed.learn(Usage(prompt_tokens=1000, prefill_s=0.2), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(5000.0)


def test_what_leaves_nothing_open_replaces_what_did() -> None:
    """A reply that says what was cached, if it read enough; a handful of tokens only counts a little."""
    speed = learned(Usage(prompt_tokens=1000, prefill_s=0.125))
    speed.learn(Usage(prompt_tokens=1000, cached_tokens=984, prefill_s=0.1), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) > 7000.0
    speed.learn(Usage(prompt_tokens=200, cached_tokens=100, prefill_s=0.2), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(500.0)
    speed.learn(Usage(prompt_tokens=1000, prefill_s=0.006), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(500.0)
    speed.learn(Usage(prompt_tokens=1000, cached_tokens=0, prefill_s=1.0), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(500 * 2**0.2)


def test_the_cached_part_of_a_prompt_is_not_read() -> None:
    """Only the rest is what the seconds were spent on."""
    assert prefill(learned(Usage(prompt_tokens=1000, cached_tokens=900, prefill_s=0.1))) == pytest.approx(
        1000.0
    )


def test_prompts_that_are_read_at_once_share_the_machine() -> None:
    """Four that come at once take four times as long each; the rate is the machine's."""
    speed = Speed()
    speed.learn(Usage(1000, 0, None), Timing(4.0, own_part=0.25), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(1000.0)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(prompt_tokens=8, output_tokens=MIN_DECODE_TOKENS - 1),
        Usage(prompt_tokens=100, cached_tokens=100),
    ],
)
def test_what_says_too_little_teaches_nothing(usage: Usage) -> None:
    """A handful of tokens says more about the clock than about the engine."""
    speed = Speed()
    speed.learn(usage, Timing(1.0, company_s={1: 1.0}), PRIOR, is_cold=False)
    assert speed.rates(PRIOR) == PRIOR


def test_seconds_that_are_not_known_teach_nothing() -> None:
    """Zero is no measurement."""
    assert learned(Usage(1000, None, 1000)).rates(PRIOR) == PRIOR


def test_decoding_is_learned_with_the_company_it_had() -> None:
    """The engine's own time counts, and the company that was seen; the first reply sets the rate."""
    prior = Rates(500.0, 30.0, 0.5)
    speed = Speed()
    speed.learn(Usage(output_tokens=100), Timing(company_s={3: 4.0}), prior, is_cold=False)
    assert speed.rates(prior).decode == pytest.approx(50.0, rel=0.02)
    told = Speed()
    told.learn(Usage(output_tokens=100, decode_s=2.0), Timing(company_s={3: 4.0}), prior, is_cold=False)
    assert told.rates(prior).decode == pytest.approx(100.0, rel=0.02)


def test_load_times_are_learned_when_a_model_was_loaded() -> None:
    """Milliseconds are bookkeeping."""
    assert learned(Usage(load_s=0.02)).rates(PRIOR).load_s == PRIOR.load_s
    assert learned(Usage(load_s=9.0)).rates(PRIOR).load_s == pytest.approx(9.0)


def test_what_is_kept_goes_on_where_it_was() -> None:
    """What was proven stays so: a cached prompt does not raise it."""
    speed = learned(Usage(1000, 0, 100, 0.5, 2.0, 7.0))
    again = Speed.of(speed.facts())
    assert (again.rates(PRIOR).prefill, again.rates(PRIOR).load_s) == pytest.approx((2000.0, 7.0))
    assert again.rates(PRIOR).decode == pytest.approx(speed.rates(PRIOR).decode, rel=0.001)
    again.learn(Usage(1000, prefill_s=0.01), Timing(), PRIOR, is_cold=False)
    assert prefill(again) == pytest.approx(2000.0)
    nothing = Speed().facts()
    assert (nothing.prefill, nothing.decode, nothing.load) == (None, None, None)
    assert math.isclose(prefill(Speed.of(nothing)), PRIOR.prefill)


def test_a_reply_is_slow_only_against_others_like_it() -> None:
    """Not before there were a few; not for a prompt longer than usual, nor for a handful of tokens."""
    speed = Speed()
    half = Usage(100, 0, 100, 0.1, 4.0)
    for _ in range(10):
        assert speed.decode.replies >= 5 or speed.slowness(half, Timing(), PRIOR) is None
        speed.learn(Usage(100, 0, 100, 0.1, 2.0), Timing(), PRIOR, is_cold=False)
    assert speed.slowness(half, Timing(), PRIOR) == pytest.approx(0.5)
    assert speed.slowness(Usage(300, 0, 100, 0.1, 4.0), Timing(), PRIOR) is None
    assert speed.slowness(Usage(100, 0, 20, 0.1, 0.8), Timing(), PRIOR) is None
    assert speed.slowness(Usage(100, 0, 100, 0.1), Timing(), PRIOR) is None


def test_what_is_thought_to_be_cold_must_be_plausible() -> None:
    """An index that was begun after its engine may be wrong: a hundred times the prior is a cached prompt."""
    speed = learned(Usage(prompt_tokens=1000, prefill_s=0.01), is_cold=True)
    assert prefill(speed) == PRIOR.prefill

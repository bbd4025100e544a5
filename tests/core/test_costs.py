import pytest

from pairproxy.core.costs import CONFIRMS_TIMES, MIN_DECODE_TOKENS, PRIORS, REMEMBERED_OUTPUTS, Costs
from pairproxy.core.models import EngineId, ModelName, Usage

GPU, M = EngineId("gpu"), ModelName("m:latest")


def learned(*usages: Usage, ttft_s: float = 0.0, alone_s: float = 0.0) -> Costs:
    """What is known after these."""
    costs = Costs()
    for usage in usages:
        costs.learn(GPU, M, usage, ttft_s, alone_s)
    return costs


def test_a_rate_never_measured_is_its_kinds_prior() -> None:
    """Known kinds have theirs; an unknown one is taken for the most common."""
    assert Costs().rates(GPU, "openai", M) == PRIORS["openai"]
    assert Costs().rates(GPU, "whatever", M) == PRIORS["ollama"]


def test_the_first_measurement_replaces_the_prior() -> None:
    """Also a load time, for an engine whose kind has none; the curve's bend stays the kind's."""
    usage = Usage(1000, None, 100, 0.5, None, 7.0)
    rates = learned(usage, alone_s=2.0).rates(GPU, "llamacpp", M)
    assert (rates.prefill, rates.decode, rates.load_s) == pytest.approx((2000.0, 50.0, 7.0))
    assert rates.beta == PRIORS["llamacpp"].beta


def test_a_rate_follows_what_is_measured_step_by_step() -> None:
    """A fifth of the way each time, in logarithms: one odd sample changes little."""
    decode = Usage(output_tokens=100)
    costs = learned(decode, alone_s=1.0)
    costs.learn(GPU, M, decode, 0.0, 32.0)
    assert costs.rates(GPU, "paced", M).decode == pytest.approx(50.0)
    for _ in range(30):
        costs.learn(GPU, M, decode, 0.0, 32.0)
    assert costs.rates(GPU, "paced", M).decode == pytest.approx(100 / 32, rel=0.01)


def test_a_short_prompt_counts_for_less() -> None:
    """It is dominated by fixed costs."""
    costs = learned(Usage(prompt_tokens=2560), ttft_s=1.0)
    costs.learn(GPU, M, Usage(prompt_tokens=32), 1.0, 0.0)
    assert costs.rates(GPU, "paced", M).prefill > 0.85 * 2560


def test_a_prompt_that_comes_again_is_not_taken_for_speed() -> None:
    """Who does not say what was cached teaches a slower rate or the same, never a faster one."""
    costs = learned(Usage(prompt_tokens=1000, prefill_s=1.0))
    for _ in range(25):
        costs.learn(GPU, M, Usage(prompt_tokens=1000, prefill_s=0.006), 0.0, 0.0)
        costs.learn(GPU, M, Usage(prompt_tokens=1000), 0.006, 0.0)
    assert costs.rates(GPU, "ollama", M).prefill == pytest.approx(1000.0)
    costs.learn(GPU, M, Usage(prompt_tokens=1000, prefill_s=2.0), 0.0, 0.0)
    assert costs.rates(GPU, "ollama", M).prefill == pytest.approx(1000 * 0.5**0.2)


def test_partly_cached_prompts_do_not_creep_up() -> None:
    """Each confirms, together they raise by no more than the noise of one."""
    costs = learned(Usage(prompt_tokens=1000, prefill_s=1.0))
    for _ in range(200):
        prefill = costs.rates(GPU, "ollama", M).prefill
        costs.learn(GPU, M, Usage(prompt_tokens=1000, prefill_s=1000 / (1.1 * prefill)), 0.0, 0.0)
    assert costs.rates(GPU, "ollama", M).prefill <= 1000 * CONFIRMS_TIMES * 1.001


def test_one_slow_reply_does_not_hold_a_rate_down_for_good() -> None:
    """What was measured before is still believed, and so is a first rate below the prior's."""
    costs = learned(Usage(prompt_tokens=1000, prefill_s=1.0), Usage(prompt_tokens=1000, prefill_s=30.0))
    assert costs.rates(GPU, "ollama", M).prefill < 600.0
    slow_first = learned(Usage(prompt_tokens=1000, prefill_s=30.0))
    for _ in range(30):
        costs.learn(GPU, M, Usage(prompt_tokens=1000, prefill_s=1.0), 0.0, 0.0)
        slow_first.learn(GPU, M, Usage(prompt_tokens=1000, prefill_s=2.0), 0.0, 0.0)
    assert costs.rates(GPU, "ollama", M).prefill == pytest.approx(1000.0, rel=0.01)
    assert slow_first.rates(GPU, "ollama", M).prefill == pytest.approx(500.0, rel=0.01)


def test_a_first_rate_beyond_belief_is_no_measurement() -> None:
    """A daemon that was restarted meets an engine that has the prompt already."""
    costs = learned(Usage(prompt_tokens=1117, prefill_s=0.006))
    assert costs.rates(GPU, "ollama", M).prefill == PRIORS["ollama"].prefill
    costs.learn(GPU, M, Usage(prompt_tokens=1000, prefill_s=0.2), 0.0, 0.0)
    assert costs.rates(GPU, "ollama", M).prefill == pytest.approx(5000.0)


def test_what_leaves_nothing_open_replaces_what_did() -> None:
    """A reply that says what was cached, if it read enough; a handful of tokens only counts a little."""
    costs = learned(Usage(prompt_tokens=1000, prefill_s=0.125))
    costs.learn(GPU, M, Usage(prompt_tokens=1000, cached_tokens=984, prefill_s=0.1), 0.0, 0.0)
    assert costs.rates(GPU, "ollama", M).prefill > 7000.0
    costs.learn(GPU, M, Usage(prompt_tokens=200, cached_tokens=100, prefill_s=0.2), 0.0, 0.0)
    assert costs.rates(GPU, "ollama", M).prefill == pytest.approx(500.0)
    costs.learn(GPU, M, Usage(prompt_tokens=1000, prefill_s=0.006), 0.0, 0.0)
    assert costs.rates(GPU, "ollama", M).prefill == pytest.approx(500.0)
    costs.learn(GPU, M, Usage(prompt_tokens=1000, cached_tokens=0, prefill_s=1.0), 0.0, 0.0)
    assert costs.rates(GPU, "ollama", M).prefill == pytest.approx(500 * 2**0.2)


def test_the_cached_part_of_a_prompt_is_not_read() -> None:
    """Only the rest is what the seconds were spent on."""
    costs = learned(Usage(prompt_tokens=1000, cached_tokens=900, prefill_s=0.1))
    assert costs.rates(GPU, "paced", M).prefill == pytest.approx(1000.0)


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
    assert learned(usage, ttft_s=1.0, alone_s=1.0).rates(GPU, "paced", M) == PRIORS["paced"]


def test_seconds_that_are_not_known_teach_nothing() -> None:
    """Zero is no measurement."""
    assert learned(Usage(1000, None, 1000)).rates(GPU, "paced", M) == PRIORS["paced"]


def test_the_length_of_replies_is_learned_per_model() -> None:
    """From none on it comes to what was seen; what came long ago is forgotten."""
    costs = Costs()
    assert costs.expected_output(M, None) == 300.0
    for _ in range(REMEMBERED_OUTPUTS):
        costs.learn_output(M, 1000)
    for _ in range(REMEMBERED_OUTPUTS):
        costs.learn_output(M, 20)
    assert costs.expected_output(M, None) == pytest.approx(20, rel=0.1)
    assert costs.expected_output(ModelName("other"), None) == 300.0


def test_one_odd_reply_is_not_taken_for_the_rule() -> None:
    """The prior weighs as much as the first reply."""
    costs = Costs()
    costs.learn_output(M, 10)
    costs.learn_output(M, 0)
    assert costs.expected_output(M, None) == 155.0
    assert costs.long_output(M, None) > 300.0


def test_a_long_reply_is_one_in_twenty() -> None:
    """Of lengths that vary, about one in twenty is longer; of equal ones, hardly more than they are."""
    varied, equal = Costs(), Costs()
    lengths = [50 * 1.02**step for step in range(190)]
    for length in lengths:
        varied.learn_output(M, round(length))
        equal.learn_output(M, 150)
    longer = sum(length > varied.long_output(M, None) for length in lengths) / len(lengths)
    assert 0.01 <= longer <= 0.12
    assert 150 <= equal.long_output(M, None) <= 200


def test_the_clients_limit_caps_both() -> None:
    """A limit of zero too: an embedding has no output."""
    costs = Costs()
    for limit in (0, 7, 5000):
        assert costs.expected_output(M, limit) == min(limit, 300)
        assert costs.long_output(M, limit) >= costs.expected_output(M, limit)
    assert costs.long_output(M, 7) == 7

import pytest

from pairproxy.core.costs import MOST_KEPT, MOST_UNLISTED, PRIORS, Costs
from pairproxy.core.models import EngineId, ModelName, Usage
from pairproxy.core.speeds import SpeedFacts, SpeedKey
from pairproxy.core.timing import Timing
from tests.core.told import ask

GPU, M = EngineId("gpu"), ModelName("m:latest")
READ_AND_WROTE = Usage(1000, 0, 100, 0.5, 2.0, 7.0)
KEY = SpeedKey(GPU, "llamacpp", "b1", M, "sha256:1")


def learned(*usages: Usage) -> Costs:
    """What is known after these."""
    costs = Costs()
    for usage in usages:
        costs.learn(GPU, M, usage, Timing())
    return costs


def test_a_rate_never_measured_is_its_kinds_prior() -> None:
    """Known kinds have theirs; an unknown one is taken for the most common."""
    assert Costs().rates(GPU, "openai", M) == PRIORS["openai"]
    assert Costs().rates(GPU, "whatever", M) == PRIORS["ollama"]


def test_the_first_measurement_replaces_the_prior() -> None:
    """Also a load time, for an engine whose kind has none; the curve's bend stays about the kind's."""
    rates = learned(READ_AND_WROTE).rates(GPU, "llamacpp", M)
    assert (rates.prefill, rates.decode, rates.load_s) == pytest.approx((2000.0, 50.0, 7.0))
    assert rates.beta == pytest.approx(PRIORS["llamacpp"].beta, rel=0.05)


def test_lengths_are_asked_with_the_request() -> None:
    """Its kind and its limit."""
    costs = Costs()
    assert costs.expected_output(ask("r", limit=100)) == 100.0
    for _ in range(50):
        costs.learn_output(ask("r", client="c"), 40)
        costs.learn_output(ask("r", client="d"), 400)
    assert 40.0 < costs.expected_output(ask("r", limit=None, client="c")) < 100.0
    assert 300.0 < costs.expected_output(ask("r", limit=None, client="d")) < 400.0
    assert costs.expected_lengths(ask("r", client="d")).remaining(100.0) == pytest.approx(300.0, rel=0.2)


def test_an_engine_of_another_version_is_another_machine() -> None:
    """It starts from the priors; the old one, should it come back, from what was known of it."""
    costs = learned(READ_AND_WROTE)
    costs.identify(KEY)
    known = costs.rates(GPU, "llamacpp", M)
    assert known.decode == pytest.approx(50.0)
    other = SpeedKey(GPU, "llamacpp", "b2", M, "sha256:1")
    costs.identify(other)
    assert costs.rates(GPU, "llamacpp", M) == PRIORS["llamacpp"]
    assert (costs.knows(KEY), costs.knows(other)) == (True, False)
    costs.identify(KEY)
    assert costs.rates(GPU, "llamacpp", M).decode == pytest.approx(known.decode, rel=0.001)


def test_what_was_kept_is_known_again_once_its_engine_is_told_of() -> None:
    """In another life of the daemon, for the same key only."""
    before = learned(READ_AND_WROTE)
    before.identify(KEY)
    after = Costs()
    after.restore(before.speeds().items())
    assert after.knows(KEY)
    assert after.rates(GPU, "llamacpp", M) == PRIORS["llamacpp"]
    after.identify(KEY)
    assert after.knows(KEY)
    rates, known = after.rates(GPU, "llamacpp", M), before.rates(GPU, "llamacpp", M)
    assert (rates.prefill, rates.decode, rates.beta, rates.load_s) == pytest.approx(
        (known.prefill, known.decode, known.beta, known.load_s), rel=0.001
    )
    assert after.speeds() == before.speeds()


def test_what_is_measured_now_counts_more_than_what_was_kept() -> None:
    """A calibration that came before its engine was told of."""
    costs = Costs()
    costs.restore([(KEY, learned(Usage(1000, 0, 100, 5.0, 20.0)).speeds().get(KEY, SpeedFacts()))])
    costs.learn(GPU, M, READ_AND_WROTE, Timing())
    costs.identify(KEY)
    assert costs.rates(GPU, "llamacpp", M).decode == pytest.approx(50.0)


def test_half_of_a_speed_is_not_known() -> None:
    """Who has only read was not measured."""
    costs = learned(Usage(1000, 0, None, 0.5))
    costs.identify(KEY)
    assert not costs.knows(KEY)


def test_what_is_kept_is_bounded() -> None:
    """Every new version of an engine leaves the old one's speeds behind; the oldest go."""
    costs = Costs()
    for version in range(2 * MOST_KEPT):
        costs.identify(SpeedKey(GPU, "llamacpp", f"b{version}", M, ""))
        costs.learn(GPU, M, READ_AND_WROTE, Timing())
    kept = costs.speeds()
    assert len(kept) == MOST_KEPT + 1
    assert SpeedKey(GPU, "llamacpp", "b0", M, "") not in kept


def test_names_that_an_engine_does_not_list_are_bounded() -> None:
    """One that takes any name is asked by many; the earliest are forgotten, what it lists is not."""
    costs = Costs()
    costs.identify(KEY)
    costs.learn(GPU, M, READ_AND_WROTE, Timing())
    names = [ModelName(f"any-{number}:latest") for number in range(MOST_UNLISTED + 1)]
    for name in names:
        costs.learn(GPU, name, READ_AND_WROTE, Timing())
    known = [name for name in (M, *names) if costs.rates(GPU, "llamacpp", name) != PRIORS["llamacpp"]]
    assert known == [M, *names[1:]]


def test_every_lesson_is_a_change() -> None:
    """Who saves sees by it that there is something to save."""
    costs = Costs()
    before = costs.changes
    costs.learn(GPU, M, READ_AND_WROTE, Timing())
    costs.learn_output(ask("r"), 7)
    assert costs.changes == before + 2

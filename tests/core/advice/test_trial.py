import pytest

from pairproxy.core.advice.trial import LEAST_GAIN, Trial, trial_of
from tests.core.advice.looking import burst, happens, node


def test_a_gain_is_of_the_run_or_of_a_request() -> None:
    """Whichever is more, unless the run ends later for it."""
    base = Trial(10.0, 4.0, 1.0, 0.0)
    assert Trial(9.0, 4.0, 1.0, 0.0).gain(base) == pytest.approx(0.1)
    assert Trial(10.0, 3.0, 1.0, 0.0).gain(base) == pytest.approx(0.25)
    assert Trial(12.0, 1.0, 1.0, 0.0).gain(base) == pytest.approx(-0.2)
    assert not Trial(9.9, 3.95, 1.0, 0.0).gains(base)
    assert LEAST_GAIN == 0.05


def test_a_gain_within_the_error_of_the_simulation_is_none() -> None:
    """Ten per cent, told by one that is off by thirteen on the run as it was."""
    assert Trial(9.0, 4.0, 1.0, 0.0).gains(Trial(10.0, 4.0, 1.0, 0.0, error=0.02))
    rough = Trial(10.0, 4.0, 1.0, 0.0, error=0.13)
    assert not Trial(9.0, 4.0, 1.0, 0.0).gains(rough)
    assert Trial(9.0, 2.0, 1.0, 0.0).effect(rough).startswith("a request would take 2.00 s")


def test_an_effect_is_worded_by_what_it_is() -> None:
    """The run, a request, or nothing."""
    base = Trial(10.0, 4.0, 1.0, 0.0)
    assert Trial(8.0, 2.0, 1.0, 0.0).effect(base) == "the run would end in 8.00 s instead of 10.0 s"
    assert (
        Trial(10.0, 2.0, 1.0, 0.0).effect(base) == "a request would take 2.00 s instead of 4.00 s on average"
    )
    assert Trial(10.0, 4.0, 1.0, 0.0).effect(base) == "the run would end no sooner"
    assert Trial(12.0, 4.0, 1.0, 0.0).effect(base) == "the run would end in 12.0 s instead of 10.0 s"


def test_an_effect_that_hangs_on_little_tells_both_ends() -> None:
    """Of a request the run as well, for it may end later by it."""
    base = Trial(10.0, 4.0, 1.0, 0.0)
    run = Trial(8.0, 2.0, 1.0, 0.0, least=Trial(9.8, 3.9, 1.0, 0.0))
    request = Trial(10.0, 2.0, 1.0, 0.0, least=Trial(12.0, 2.1, 1.0, 0.0))
    assert run.effect(base).endswith("8.00 s instead of 10.0 s (9.80 s at speeds 1 % otherwise)")
    assert request.effect(base).endswith("(2.10 s, and the run 12.0 s at speeds 1 % otherwise)")
    numbers = run.concluded("routing", base, "So.", {}).numbers
    assert (numbers["least_after_s"], numbers["least_request_after_s"]) == (9.8, 3.9)


def test_a_conclusion_has_the_numbers_of_its_trial() -> None:
    """Beside those that led to it."""
    base, trial = Trial(10.0, 4.0, 1.0, 0.0), Trial(8.0, 3.0, 0.5, 0.0)
    found = trial.concluded("more-slots", base, "So.", {"queue_s": 2.0})
    assert (found.lever, found.helps, found.gain_s) == ("more-slots", True, 2.0)
    assert found.gain == pytest.approx(0.25)
    assert found.numbers == {
        "queue_s": 2.0,
        "simulated_before_s": 10.0, "simulated_after_s": 8.0,
        "request_before_s": 4.0, "request_after_s": 3.0,
        "ttft_before_s": 1.0, "ttft_after_s": 0.5,
    }  # fmt: skip


def test_a_simulation_is_summed_up() -> None:
    """Two of the same length, one after the other on one slot."""
    found = trial_of(happens([node("a")], burst(2, prompt=200, output=100), "fastest-finish"))
    assert found.makespan_s == pytest.approx(4.2, rel=0.05)
    assert found.latency_s == pytest.approx(3.15, rel=0.05)
    assert found.ttft_s == pytest.approx(1.15, rel=0.05)

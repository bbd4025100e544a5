from dataclasses import replace

import pytest

from pairproxy.core.advice.trials import LEAST_GAIN, Trial, Trials
from tests.core.advice.looking import burst, chain, happens, look, node, prefixes


def test_the_run_as_it_was_comes_back() -> None:
    """Of what a simulation recorded, the simulation is off by hardly anything."""
    for requests in (burst(8), chain(4), prefixes([0, 1, 0])):
        trials = Trials(look([node("a"), node("b")], requests))
        assert trials.base is not None
        assert trials.error is not None
        assert trials.error < 0.05
        assert not trials.problem


def test_a_node_less_takes_longer_and_none_left_is_no_trial() -> None:
    """Each simulated as it would really be."""
    trials = Trials(look([node("a"), node("b")], burst(8)))
    without = trials.node_less("b")
    assert without is not None
    really = happens([node("a")], burst(8), "fastest-finish")
    assert without.makespan_s == pytest.approx(really.makespan_s, rel=0.1)
    assert Trials(look([node("a")], burst(2))).node_less("a") is None


def test_a_run_without_counted_tokens_has_no_trials() -> None:
    """And it is said why."""
    evidence = look([node("a")], burst(2))
    trials = Trials(replace(evidence, recording=replace(evidence.recording, requests=())))
    assert trials.base is None
    assert trials.problem
    assert trials.slots(2) is None
    assert not trials.is_cut


def test_a_gain_is_of_the_run_or_of_a_request() -> None:
    """Whichever is more, unless the run ends later for it."""
    base = Trial(10.0, 4.0, 1.0, 0.0)
    assert Trial(9.0, 4.0, 1.0, 0.0).gain(base) == pytest.approx(0.1)
    assert Trial(10.0, 3.0, 1.0, 0.0).gain(base) == pytest.approx(0.25)
    assert Trial(12.0, 1.0, 1.0, 0.0).gain(base) == pytest.approx(-0.2)
    assert not Trial(9.9, 3.95, 1.0, 0.0).gains(base)
    assert LEAST_GAIN == 0.05


def test_an_effect_is_worded_by_what_it_is() -> None:
    """The run, a request, or nothing."""
    base = Trial(10.0, 4.0, 1.0, 0.0)
    assert Trial(8.0, 2.0, 1.0, 0.0).effect(base) == "the run would end in 8.00 s instead of 10.0 s"
    assert (
        Trial(10.0, 2.0, 1.0, 0.0).effect(base) == "a request would take 2.00 s instead of 4.00 s on average"
    )
    assert Trial(10.0, 4.0, 1.0, 0.0).effect(base) == "the run would end no sooner"
    assert Trial(12.0, 4.0, 1.0, 0.0).effect(base) == "the run would end in 12.0 s instead of 10.0 s"

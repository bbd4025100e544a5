from dataclasses import replace
from itertools import count

import pytest

from pairproxy.core.advice.flowing import flow
from pairproxy.core.advice.trials import MOST_WORK, Trials
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
    assert trials.problem.endswith("no reply counted its tokens.")
    assert trials.slots(2) is None
    assert not trials.is_cut


def test_a_model_that_no_node_lists_is_said_to_be_the_reason() -> None:
    """An engine may answer to any name; the tokens were counted all the same."""
    evidence = look([node("a")], burst(3))
    first, *others = evidence.recording.requests
    asked = (replace(first, model="gone"), *others)
    trials = Trials(replace(evidence, recording=replace(evidence.recording, requests=asked)))
    assert trials.base is None
    assert trials.problem.endswith("no node lists one of its models.")


def test_a_large_run_is_simulated_without_the_scheduler() -> None:
    """Many requests, or many places; what only the scheduler can tell is not told then."""
    nodes = [node(name, 4) for name in "abcdefgh"]
    trials = Trials(look(nodes, burst(MOST_WORK // 8 + 1, output=10)))
    assert trials.is_rough
    assert trials.policy("least-busy") is None
    few = Trials(look(nodes[:2], burst(4)))
    assert not few.is_rough
    assert few.policy("least-busy") is not None


def test_both_simulations_agree_on_what_is_simple() -> None:
    """Equal requests at once on equal nodes."""
    evidence = look([node("a", 2), node("b", 2)], burst(20))
    exact = Trials(evidence).base
    assert exact is not None
    assert flow(evidence.recording).makespan_s == pytest.approx(exact.makespan_s, rel=0.1)


def test_what_gains_is_tried_at_speeds_a_hair_otherwise_while_there_is_time() -> None:
    """Of one engine there is nothing to choose from; where the time is over, it is said to be cut."""
    asked = count()
    alone = Trials(look([node("a")], burst(8)), lambda: next(asked) < 0)
    assert alone.slots(2) is not None
    assert next(asked) == 1
    asked = count()
    two = Trials(look([node("a"), node("b")], burst(8)), lambda: next(asked) < 0)
    trial = two.slots(2)
    assert trial is not None
    assert trial.least is None  # equal machines with room: nothing hangs on them
    assert next(asked) == 3
    asked = count()
    late = Trials(look([node("a"), node("b")], burst(8)), lambda: next(asked) > 0)
    assert late.slots(2) is not None
    assert late.is_cut

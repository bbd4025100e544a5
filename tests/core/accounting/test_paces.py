from dataclasses import replace

import pytest

from pairproxy.core.accounting.paces import at_their_best, cached_of
from pairproxy.core.models import ModelName, Rates
from tests.core.accounting.conversation import A, B, Told, at, dispatch, served

MODEL = ModelName("m")
RATES = Rates(prefill=100.0, decode=10.0, beta=0.0)
PLACES = {at(A): (2, {MODEL: RATES}), at(B): (1, {MODEL: RATES})}


def test_a_request_that_was_faster_raises_the_rates_of_its_place() -> None:
    """A hundred tokens in five seconds instead of ten: twice the rates there, and nowhere else."""
    best = at_their_best([served("r", 0, 0, 5.05, tokens=100)], PLACES)
    assert best[at(A)][1][MODEL].decode == pytest.approx(20.0)
    assert best[at(A)][1][MODEL].prefill == pytest.approx(200.0)
    assert best[at(B)] == PLACES[at(B)]


def test_a_slower_one_lowers_nothing() -> None:
    """The bound goes by the best that is known."""
    assert at_their_best([served("r", 0, 0, 50, tokens=100)], PLACES) == PLACES


def test_together_they_can_show_what_none_shows_alone() -> None:
    """Three at once on two slots, each as fast as one alone: the engine can do more than was learned."""
    three = [served(f"r{name}", 0, 0, 10.1, tokens=100) for name in range(3)]
    slots, rates = at_their_best(three, {at(A): (2, {MODEL: Rates(100.0, 10.0, beta=0.5)})})[at(A)]
    assert slots == 3
    assert rates[MODEL].decode == pytest.approx(10.0 * 30.0 / (3 * 10.0 / 2.0) / 1.01, rel=0.01)


def test_cached_tokens_are_told_or_predicted() -> None:
    """What the engine says counts; without that what the decision reckoned with, else nothing."""
    assert cached_of(served("r", 0, 0, 1, cached=7)) == 7
    assert cached_of(served("r", 0, 0, 1)) == 0
    told, sent = Told(), dispatch("r", A)
    other, picked = sent.decision.candidates
    priced = (replace(other, cached_tokens=9), replace(picked, cached_tokens=5))
    told.arrived(0.0, "r", replace(sent, decision=replace(sent.decision, candidates=priced)))
    told.finished(1.0, "r")
    assert cached_of(told.only) == 5

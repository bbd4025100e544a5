from dataclasses import replace

import pytest

from pairproxy.core.advice.flowing import flow
from pairproxy.core.models import Rates
from tests.core.advice.looking import burst, chain, happens, look, node, prefixes


def test_requests_come_in_turn_where_they_are_done_soonest() -> None:
    """Eight of two seconds on two slots: four waves; a faster node takes more of them."""
    found = flow(look([node("a"), node("b")], burst(8)).recording)
    assert found.makespan_s == pytest.approx(4 * 2.1, rel=0.02)
    assert found.ttft_s == pytest.approx(1.5 * 2.1 + 0.1, rel=0.02)
    faster = flow(look([node("a"), node("b", 1, Rates(6000.0, 150.0, 0.15))], burst(8)).recording)
    assert faster.makespan_s < 0.6 * found.makespan_s


def test_a_chain_is_one_after_the_other() -> None:
    """However many slots there are; what the last step read is in the cache."""
    recording = look([node("a", 4)], chain(5)).recording
    really = happens([node("a", 4)], chain(5), "fastest-finish")
    assert flow(recording).makespan_s == pytest.approx(really.makespan_s, rel=0.05)


def test_caches_are_found_where_they_are() -> None:
    """On one node, each beginning is read once."""
    found = flow(look([node("a")], prefixes([0, 1, 0, 1], blocks=50)).recording)
    assert found.hit_rate == pytest.approx(0.5, abs=0.02)


def test_a_model_that_nobody_has_cannot_be_simulated() -> None:
    """As a ValueError, which trials understand."""
    recording = look([node("a")], burst(2)).recording
    with pytest.raises(ValueError, match="No node"):
        flow(replace(recording, places=()))


def test_what_waits_for_several_waits_for_the_last() -> None:
    """A summary after two that run at once."""
    recording = look([node("a", 2)], burst(3)).recording
    first, second, last = recording.requests
    joined = replace(recording, requests=(first, second, replace(last, after=0, joins=(1,), think_s=5.0)))
    alone = flow(replace(recording, requests=(first, second)))
    assert flow(joined).makespan_s == pytest.approx(alone.makespan_s + 5.0 + 2.1, rel=0.05)

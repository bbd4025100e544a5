from dataclasses import replace

import pytest

from pairproxy.core.advice.evidence import Service
from pairproxy.core.advice.serving import loading, service_layer
from pairproxy.core.advice.trials import Trials
from pairproxy.core.models import Rates
from pairproxy.core.workload import SimNode
from tests.core.advice.looking import burst, happens, look, node


@pytest.mark.parametrize(
    ("service", "says"),
    [
        (Service(loop_lag_s=0.3), "held up for 0.30 s"),
        (Service(transport_s=1.5), "a queue of its own"),
        (Service(foreign=2), "2 slots less"),
    ],
)
def test_what_costs_in_our_own_layer_is_told(service: Service, says: str) -> None:
    """The loop, the way to the engine, connections, and those who go beside us."""
    (found,) = service_layer(replace(look([node("a")], burst(2)), service=service))
    assert found.helps
    assert says in found.sentence


def test_a_layer_that_costs_nothing_says_what_was_looked_at() -> None:
    """With its numbers."""
    service = Service(loop_lag_s=0.002, transport_s=0.004, reused=90, dialled=10)
    (found,) = service_layer(replace(look([node("a")], burst(2)), service=service))
    assert not found.helps
    assert found.numbers == {"loop_lag_s": 0.002, "transport_s": 0.004, "connections_reused": 0.9}


def test_a_handful_of_connections_says_nothing() -> None:
    """The first ones are always new."""
    (found,) = service_layer(replace(look([node("a")], burst(2)), service=Service(dialled=3)))
    assert not found.helps


def test_new_connections_cost_only_requests_that_are_as_short() -> None:
    """Three milliseconds of twenty are something, of two seconds nothing."""
    service = Service(reused=2, dialled=40)
    for output, costs in ((1, True), (100, False)):
        evidence = replace(look([node("a")], burst(1, prompt=20, output=output)), service=service)
        (found,) = service_layer(evidence)
        assert found.helps == costs
        assert "5 % of what was sent to peers" in found.sentence


def test_a_moment_of_a_long_request_is_no_matter() -> None:
    """A tenth of a second of twenty."""
    service = Service(loop_lag_s=0.1)
    (found,) = service_layer(replace(look([node("a")], burst(1, output=1000)), service=service))
    assert not found.helps


def test_models_that_had_to_be_loaded_are_told_with_what_it_gains_to_keep_them() -> None:
    """The same requests on warm engines end when it is said; the run as it was is met, cold."""
    rates = Rates(2000.0, 50.0, 0.15, load_s=6.0)
    cold = [SimNode.of(name, 1, rates, is_loaded=name == "a") for name in "abc"]
    evidence = look(cold, burst(9))
    trials = Trials(evidence)
    assert trials.error == pytest.approx(0.0, abs=0.05)
    (found,) = loading(evidence, trials)
    assert (found.lever, found.helps) == ("loading", True)
    assert found.sentence.startswith("Loading: node b and node c had to load the model, up to 6.00 s.")
    warm = happens([SimNode.of(name, 1, rates) for name in "abc"], burst(9), "fastest-finish")
    assert found.numbers["simulated_after_s"] == pytest.approx(warm.makespan_s, rel=0.05)
    warmed = look([node("a"), node("b")], burst(4))
    assert [*loading(warmed, Trials(warmed))] == []

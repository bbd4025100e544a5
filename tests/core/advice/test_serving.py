from dataclasses import replace

import pytest

from pairproxy.core.advice.evidence import Service
from pairproxy.core.advice.serving import service_layer
from tests.core.advice.looking import burst, look, node


@pytest.mark.parametrize(
    ("service", "says"),
    [
        (Service(loop_lag_s=0.3), "held up for 0.30 s"),
        (Service(transport_s=1.5), "a queue of its own"),
        (Service(reused=2, dialled=40), "only 5 % of the connections"),
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

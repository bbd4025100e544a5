import pytest

from pairproxy.core.advice.levers import (
    ALL,
    ALONE,
    NONE,
    ROUTING_AND_PREFIX,
    SWITCHES,
    Lever,
    Together,
    compared,
    simulate_switch,
    together,
)
from pairproxy.core.advice.trial import Trial
from pairproxy.core.models import Rates
from tests.core.advice.looking import burst, happens, look, node, prefixes

ORDER = [0, 1, 1, 0, 2, 3, 3, 2, 0, 1, 2, 3]


def rows(trials: list[list[Trial]]) -> dict[str, Lever]:
    """By their names."""
    return {one.name: one for one in compared([switch.name for switch in SWITCHES], trials)}


def test_every_switch_is_what_its_name_says() -> None:
    """None is off in the first, all are on in the last, and each is once alone."""
    on = [(one.routing, one.prefix, one.slots) for one in SWITCHES]
    assert on == [
        (False, False, False),
        (True, False, False),
        (False, True, False),
        (False, False, True),
        (True, True, False),
        (True, True, True),
    ]
    assert [one.policy for one in (NONE, *ALONE, ROUTING_AND_PREFIX, ALL)] == [
        "round-robin", "fastest-finish", "prefix-aware", "round-robin", "fastest-finish", "fastest-finish",
    ]  # fmt: skip


def test_all_levers_on_is_the_run_as_it_was() -> None:
    """Where the policy was ours: what really happens is what the last switch finds."""
    nodes = [node("a", 2), node("b", 2)]
    recording = look(nodes, burst(12)).recording
    really = happens(nodes, burst(12), "fastest-finish")
    assert simulate_switch(recording, ALL, 0).makespan_s == pytest.approx(really.makespan_s, rel=0.05)


def test_routing_gains_where_nodes_differ() -> None:
    """In turn, one of three goes to a node that is eight times slower."""
    nodes = [node("a", 1, Rates(4000.0, 80.0, 0.15)), node("b", 1, Rates(500.0, 10.0, 0.15))]
    recording = look(nodes, burst(3)).recording
    found = rows([[simulate_switch(recording, switch, 0) for switch in SWITCHES]])
    assert found["routing"].run.value > 2.0
    assert found["none"].run.value == 1.0


def test_affinity_gains_where_beginnings_are_long() -> None:
    """By the time of a request: who knows where a prompt was read is sooner, and hits more."""
    nodes = [node(name, 1, Rates(600.0, 50.0, 0.15)) for name in "abc"]
    recording = look(nodes, prefixes(ORDER, pause_s=6.0), "round-robin").recording
    found = rows([[simulate_switch(recording, switch, 0) for switch in SWITCHES]])
    assert found["prefix affinity"].hit_rate > found["none"].hit_rate + 0.2
    assert found["prefix affinity"].request.value > 1.5
    assert found["routing"].hit_rate < found["routing and prefix affinity"].hit_rate


def test_slots_gain_where_company_costs_little_also_on_engines_of_one() -> None:
    """There two are tried."""
    for slots in (1, 2):
        recording = look([node("a", slots, Rates(4000.0, 50.0, 0.05))], burst(8)).recording
        found = rows([[simulate_switch(recording, switch, 0) for switch in SWITCHES]])
        assert found["slots"].run.value == pytest.approx(2 / 1.05, rel=0.1)
        assert found["routing"].run.value == pytest.approx(1.0, abs=0.01)


def test_rounds_are_compared_each_with_its_own() -> None:
    """A slow round is slow for all, and says nothing of a lever."""

    def took(seconds: float) -> Trial:
        return Trial(seconds, seconds / 2, 0.1, 0.5)

    (_, lever) = compared(["none", "x"], [[took(10), took(5)], [took(30), took(10)], [took(12), took(6)]])
    assert (lever.run.value, lever.run.least, lever.run.most) == (2.0, 2.0, 3.0)
    assert lever.makespan_s == 6.0


@pytest.mark.parametrize(
    ("product", "joint", "says"),
    [
        (2.0, 2.02, "The gains add up"),
        (2.0, 1.5, "The gains overlap"),
        (1.2, 1.5, "help each other"),
        (1.01, 0.99, "nothing to add up"),
    ],
)
def test_whether_gains_add_up_is_a_sentence(product: float, joint: float, says: str) -> None:
    """With both numbers in it."""
    verdict = Together(product, joint).verdict
    assert says in verdict
    assert f"{product:.2f} times as fast" in verdict


def test_the_product_is_that_of_the_levers_alone() -> None:
    """Not of the joint ones."""
    made = [[Trial(one, 1, 0, 0) for one in (12.0, 6.0, 4.0, 12.0, 3.0, 3.0)]]
    found = compared([switch.name for switch in SWITCHES], made)
    assert together(found, ["routing", "prefix affinity"], "all") == Together(6.0, 4.0)


def test_where_only_requests_gain_they_are_compared() -> None:
    """A client that waits between its requests is done no sooner, and still gains."""
    made = [[Trial(12.0, one, 0, 0) for one in (12.0, 6.0, 4.0, 12.0, 3.0, 2.0)]]
    found = compared([switch.name for switch in SWITCHES], made)
    assert together(found, ["routing", "prefix affinity"], "all") == Together(6.0, 6.0, "request")


def test_a_lever_that_alone_costs_is_named() -> None:
    """It is no help that two levers give each other that one of them mends what the other costs."""
    made = [[Trial(one, 1, 0, 0) for one in (12.0, 12.0, 16.0, 6.0, 12.0, 6.0)]]
    found = compared([switch.name for switch in SWITCHES], made)
    sums = together(found, ["routing", "prefix affinity", "slots"], "all")
    assert sums == Together(1.5, 2.0, slower=("prefix affinity",))
    assert sums.verdict.startswith("Prefix affinity alone makes it slower, and not with the others: ")

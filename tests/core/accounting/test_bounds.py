from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.accounting.bounds import (
    EXACT_REQUESTS,
    best_services,
    capacity_bound,
    counting_bound,
    exact_makespan,
    fluid_bound,
    longest_bound,
    provable_makespan,
    throughput_bound,
    waves_bound,
)
from pairproxy.core.models import NodeId
from tests.core.accounting.conversation import A, B, C
from tests.core.accounting.schedules import Services, list_schedule, optimum, workloads

JUST_ABOVE = 1.0 + 1e-9  # sums of the same numbers in another order
MOST_SCHEDULES = 4096  # that brute force may try, so that 300 examples take seconds


@pytest.mark.parametrize(
    ("requests", "slots", "bound"),
    [(5, 2, 1.67), (5, 3, 2.5), (5, 1, 1.0), (1, 4, 1.0), (8, 4, 4.0), (9, 4, 3.0), (3, 7, 3.0)],
)
def test_waves(requests: int, slots: int, bound: float) -> None:
    """N equal requests go in ceil(N / slots) waves: the published bound, with its worked examples."""
    assert round(waves_bound(requests, slots), 2) == bound


@pytest.mark.parametrize(("requests", "slots"), [(0, 1), (1, 0)])
def test_waves_of_nothing_are_no_bound(requests: int, slots: int) -> None:
    """Without a request or a slot there is no bound to speak of."""
    with pytest.raises(ValueError, match="at least one"):
        waves_bound(requests, slots)


def test_capacity() -> None:
    """Work cut at will is spread by speed; the best node alone is the measure."""
    assert capacity_bound([130.0, 50.0, 25.0]) == pytest.approx(205 / 130)
    assert capacity_bound([3.0]) == 1.0
    for rates in ([], [0.0, 0.0], [-1.0, 2.0]):
        with pytest.raises(ValueError, match="rate"):
            capacity_bound(rates)


@pytest.mark.parametrize(("nodes", "bound"), [([A, B], 5 / 3), ([A, B, C], 2.5), ([A], 1.0)])
def test_equal_requests_on_equal_nodes_are_bounded_by_waves(nodes: list[NodeId], bound: float) -> None:
    """Where the waves bound is exact, the provable bound is the same."""
    services = [dict.fromkeys(nodes, 7.0)] * 5
    assert 5 * 7.0 / provable_makespan(services, dict.fromkeys(nodes, 1)) == pytest.approx(bound)


def test_equal_requests_need_their_waves_also_when_there_are_too_many_to_search() -> None:
    """Counting finds the waves for any number of requests: 41 on 2 nodes of 4 slots are six waves."""
    services = [{A: 3.0, B: 3.0}] * 41
    assert provable_makespan(services, {A: 4, B: 4}) == pytest.approx(18.0)


def test_five_tasks_of_the_published_table() -> None:
    """Speeds 1 : 0.82 : 2.86: three tasks on the fast node, one on each other: 4:23 instead of 18:00."""
    speeds = {A: 1.0, B: 0.82, C: 2.86}
    task_s = 18 * 60 / 5
    services = [{node: task_s / speed for node, speed in speeds.items()}] * 5
    assert provable_makespan(services, dict.fromkeys(speeds, 1)) == pytest.approx(task_s / 0.82)
    without_fast = [{A: task_s, B: task_s / 0.82}] * 5
    assert provable_makespan(without_fast, {A: 1, B: 1}) == pytest.approx(3 * task_s)


def test_a_node_that_cannot_serve_is_left_out() -> None:
    """A node without the request in its mapping, or without slots, is no place for it."""
    assert provable_makespan([{A: 4.0, B: 1.0}, {A: 4.0, B: 1.0}], {A: 1}) == 8.0
    assert provable_makespan([{A: 4.0, B: 1.0}, {A: 4.0}], {A: 1, B: 1}) == 4.0
    with pytest.raises(ValueError, match="no node"):
        provable_makespan([{B: 1.0}], {A: 1, B: 0})
    with pytest.raises(ValueError, match="zero or more"):
        provable_makespan([{A: -1.0}], {A: 1})
    assert provable_makespan([], {A: 1}) == 0.0


def test_a_late_request_bounds_the_makespan() -> None:
    """Nothing ends before the last release and its service; what is released together queues together."""
    services: Services = [{A: 1.0}, {A: 2.0}, {A: 2.0}]
    assert provable_makespan(services, {A: 1}, releases=[5.0, 15.0, 15.0]) == 14.0
    with pytest.raises(ValueError, match="one release per request"):
        provable_makespan(services, {A: 1}, releases=[0.0])


@given(workloads())
@settings(max_examples=300, deadline=None)
def test_no_bound_exceeds_the_optimum(workload: tuple[Services, dict[NodeId, int]]) -> None:
    """Each bound holds for the best of all schedules on unrelated nodes, and the search finds that one."""
    services, slots = workload
    if sum(slots.values()) ** len(services) > MOST_SCHEDULES:
        slots = dict.fromkeys(slots, 1)
    least = optimum(services, slots, [0.0] * len(services))
    assert longest_bound(services) <= least * JUST_ABOVE
    assert fluid_bound(services, slots) <= least * JUST_ABOVE
    assert counting_bound(services, slots) <= least * JUST_ABOVE
    assert exact_makespan(services, slots) == pytest.approx(least)


@given(workloads(most_requests=5), st.data())
@settings(max_examples=300, deadline=None)
def test_no_bound_exceeds_the_optimum_with_releases(
    workload: tuple[Services, dict[NodeId, int]], data: st.DataObject
) -> None:
    """With arrivals over time the bound holds as well, and is no weaker than without the early ones."""
    services, slots = workload
    if sum(slots.values()) ** len(services) > MOST_SCHEDULES:
        slots = dict.fromkeys(slots, 1)
    times = st.lists(st.floats(0.0, 30.0), min_size=len(services), max_size=len(services))
    releases = data.draw(times)
    bound = provable_makespan(services, slots, releases)
    assert bound <= optimum(services, slots, releases) * JUST_ABOVE
    assert bound * JUST_ABOVE >= provable_makespan(services, slots)


@given(workloads(most_requests=40, most_slots=4), st.integers())
@settings(deadline=None)
def test_no_schedule_beats_the_bound(workload: tuple[Services, dict[NodeId, int]], seed: int) -> None:
    """Any list schedule whose services are at least the given ones ends no sooner than the bound."""
    services, slots = workload
    random = Random(seed)
    longer = [{node: service * random.uniform(1.0, 1.5) for node, service in row.items()} for row in services]
    makespan = max(service.end_s for service in list_schedule(longer, slots, random))
    assert provable_makespan(services, slots) <= makespan * JUST_ABOVE


def test_the_fluid_bound_is_tight_for_nodes_of_steady_ratio() -> None:
    """Nodes that differ by a factor, many requests: sum of work over sum of speeds."""
    random, speeds, slots = Random(1), {A: 1.0, B: 2.5, C: 4.0}, {A: 1, B: 2, C: 1}
    work = [random.uniform(1.0, 9.0) for _ in range(200)]
    services = [{node: size / speed for node, speed in speeds.items()} for size in work]
    assert fluid_bound(services, slots) == pytest.approx(sum(work) / 10.0)


def test_the_fluid_bound_sends_each_request_where_it_is_at_home() -> None:
    """Where each half of the requests has a node of its own, the bound is that half's work."""
    services: Services = [{A: 1.0, B: 50.0}] * 30 + [{A: 50.0, B: 1.0}] * 30
    assert fluid_bound(services, {A: 1, B: 1}) == pytest.approx(30.0)


def test_a_search_that_is_too_long_gives_up() -> None:
    """The exact search is bounded by its steps; the relaxations still bound the makespan."""
    random = Random(3)
    services: Services = [{node: random.uniform(1, 9) for node in (A, B, C)} for _ in range(40)]
    slots = {A: 4, B: 4, C: 4}
    assert exact_makespan(services, slots) is None
    assert provable_makespan(services, slots) > 0.0
    assert len(services) > EXACT_REQUESTS


def test_best_services_fill_in_what_was_not_seen() -> None:
    """A one-slot node keeps what it took; elsewhere, and where slots share an engine, the pace counts."""
    observed = [{A: 4.0}, {A: 6.0, B: 3.0}, {B: 2.0}]
    sizes = [1.0, 2.0, 1.0]
    assert best_services(observed, sizes, {A: 1, B: 1, C: 1}) == [
        {A: 4.0, B: 1.5, C: 1.5},
        {A: 6.0, B: 3.0, C: 3.0},
        {A: 3.0, B: 2.0, C: 1.5},
    ]
    assert best_services(observed, sizes, {A: 4, B: 1})[0] == {A: 3.0, B: 1.5}
    with pytest.raises(ValueError, match="no request"):
        best_services([{}], [1.0], {A: 1})


def test_several_things_to_run_out_of_bound_more_than_one() -> None:
    """Half of the work reads, half writes: each alone would take ten seconds on the one node."""
    uses = [{A: (10.0 / 4, 0.0)}] * 4 + [{A: (0.0, 10.0 / 4)}] * 4
    assert throughput_bound(uses) == pytest.approx(10.0)
    assert throughput_bound([{A: (3.0, 4.0), B: (6.0, 8.0)}] * 3) == pytest.approx(8.0)


def test_uses_are_told_for_every_request() -> None:
    """A row too few is a mistake of the caller."""
    with pytest.raises(ValueError, match="one row of uses per request"):
        provable_makespan([{A: 1.0}, {A: 1.0}], {A: 1}, uses=[{A: (1.0,)}])

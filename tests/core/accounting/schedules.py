"""Schedules to hold against the bounds: the optimum by brute force, and any list schedule."""

from collections.abc import Mapping, Sequence
from itertools import product
from random import Random

from hypothesis import strategies as st

from pairproxy.core.accounting.services import Service
from pairproxy.core.models import NodeId
from tests.core.accounting.conversation import A, B, C, at

Services = list[dict[NodeId, float]]


def optimum(services: Services, slots: Mapping[NodeId, int], releases: Sequence[float]) -> float:
    """The least makespan over all ways to give requests to slots, each slot serving by release."""
    machines = [node for node, count in slots.items() for _ in range(count)]
    order = sorted(range(len(services)), key=lambda index: releases[index])
    least = float("inf")
    for choice in product(range(len(machines)), repeat=len(services)):
        free = [0.0] * len(machines)
        for index in order:
            machine = choice[index]
            service = services[index].get(machines[machine], float("inf"))
            free[machine] = max(free[machine], releases[index]) + service
        least = min(least, max(free))
    return least - min(releases)


def list_schedule(services: Services, slots: Mapping[NodeId, int], random: Random) -> list[Service]:
    """Requests in random order, each on a random node that can serve it, on the slot free first."""
    free = {node: [0.0] * count for node, count in slots.items()}
    placed: dict[int, Service] = {}
    for index in random.sample(range(len(services)), len(services)):
        node = random.choice(sorted(services[index]))
        slot = min(range(len(free[node])), key=free[node].__getitem__)
        start = free[node][slot]
        free[node][slot] = start + services[index][node]
        placed[index] = Service(at(node), start, free[node][slot], output_tokens=1 + index % 3)
    return [placed[index] for index in range(len(services))]


seconds = st.floats(0.1, 20.0) | st.integers(1, 4).map(float)


@st.composite
def machines(draw: st.DrawFn, *, most_slots: int = 2) -> dict[NodeId, int]:
    """One to three nodes with a few slots."""
    nodes = [A, B, C][: draw(st.integers(1, 3))]
    return {node: draw(st.integers(1, most_slots)) for node in nodes}


@st.composite
def workloads(
    draw: st.DrawFn, *, most_requests: int = 6, most_slots: int = 2, partial: bool = True
) -> tuple[Services, dict[NodeId, int]]:
    """Requests with unrelated services; with ``partial``, some nodes cannot serve some of them."""
    slots = draw(machines(most_slots=most_slots))
    rows = []
    for _ in range(draw(st.integers(1, most_requests))):
        row = {node: draw(seconds) for node in slots}
        if partial and draw(st.integers(0, 3)) == 0:
            row = dict(list(row.items())[: draw(st.integers(1, len(row)))])
        rows.append(row)
    return rows, slots

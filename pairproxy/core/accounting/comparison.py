"""Alone against together: the same requests on one node and on all, leg by leg, and how good that is.

Which bound the efficiency stands against:

1. Equal nodes, one slot each, speedup within the waves bound: the waves bound, N / ceil(N / slots).
2. Everything else (the measurement beats it, nodes differ, slots share an engine): the provable bound, the
   shortest makespan of any schedule with each piece at the best it was ever seen to take on each node.
   ``why`` says in words which of these it was.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_low
from typing import Literal

from pairproxy.core.accounting.bounds import best_services, capacity_bound, provable_makespan, waves_bound
from pairproxy.core.accounting.notes import ANECDOTE_REQUESTS
from pairproxy.core.accounting.services import Service, Tally, at_node, tally
from pairproxy.core.models import NodeId

EQUAL_SPEEDS = 1.25  # fastest / slowest: equal machines that share a room, or two cores, differ by a fifth
EQUAL_PIECES = 1.05  # longest / shortest: closer than that, lengths do not explain a speedup


@dataclass(frozen=True, slots=True)
class LegResult:
    """One leg: the same requests, in the same order in every leg; seconds since the leg began.

    A request starts when it is sent to its place, not when its client asked: waiting is no service.
    """

    makespan_s: float
    requests: tuple[Service, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Medians over the legs, next to the bounds. Encodes to JSON as it is."""

    requests: int
    slots: int  # of all nodes together
    makespans_alone_s: tuple[float, ...]
    makespans_together_s: tuple[float, ...]
    makespan_alone_s: float
    makespan_together_s: float
    speedup: float
    bound_waves: float
    bound_capacity: float  # sum of the speeds of all slots / the speed of the node alone
    provable_makespan_s: float
    bound_provable: float
    efficiency: float  # in (0, 1]
    efficiency_against: Literal["waves", "provable"]
    why: str | None
    speeds: dict[NodeId, float]  # of a slot, relative to the node alone; only nodes seen at work together
    pieces_alone_s: tuple[float, ...]  # the least that each request took alone
    per_node: dict[NodeId, Tally]  # of the together leg with the median makespan
    notes: tuple[str, ...]


def compare(
    alone: Sequence[LegResult], together: Sequence[LegResult], slots_together: Mapping[NodeId, int]
) -> Comparison:
    """Compare legs on one node with legs on all of them; ``slots_together``: of every node that took part.

    Raises ValueError for no leg of a kind, other requests in one, a time of zero, or several nodes alone.
    """
    home = _check(alone, together)
    slots = {home: 1, **slots_together}
    best = _best_observed((*alone, *together))
    sizes = [row[home] for row in best]
    alone_s = median(leg.makespan_s for leg in alone)
    together_s = median(leg.makespan_s for leg in together)
    lower_s = min(provable_makespan(best_services(best, sizes, slots), slots), alone_s)
    speeds = _speeds(together, sizes, home)
    waves = waves_bound(len(sizes), sum(slots.values()))
    speedup = alone_s / together_s
    doubts = _doubts(speedup / waves, speeds, sizes, slots[home])
    efficiency, why = _judge(speedup, waves, alone_s / lower_s, doubts)
    return Comparison(
        requests=len(sizes),
        slots=sum(slots.values()),
        makespans_alone_s=tuple(leg.makespan_s for leg in alone),
        makespans_together_s=tuple(leg.makespan_s for leg in together),
        makespan_alone_s=alone_s,
        makespan_together_s=together_s,
        speedup=speedup,
        bound_waves=waves,
        bound_capacity=_capacity(speeds, slots, home),
        provable_makespan_s=lower_s,
        bound_provable=alone_s / lower_s,
        efficiency=efficiency,
        efficiency_against="provable" if why else "waves",
        why=why,
        speeds=speeds,
        pieces_alone_s=tuple(sizes),
        per_node=dict.fromkeys(slots, Tally()) | tally(_median_leg(together).requests, at_node),
        notes=_notes(len(sizes), speeds, slots),
    )


def explain(comparison: Comparison, names: Mapping[NodeId, str] | None = None) -> list[str]:
    """The comparison in plain sentences, one a line. ``names``: what a person calls the nodes."""
    c, called = comparison, names or {}
    waves = -(-c.requests // c.slots)
    legs = f"{_count(len(c.makespans_alone_s), 'leg')} and {len(c.makespans_together_s)}"
    lines = [
        (
            f"Alone {c.makespan_alone_s:.2f} s, together {c.makespan_together_s:.2f} s (medians of {legs}):"
            f" speedup {c.speedup:.2f}, measured."
        ),
        (
            f"Waves bound {c.requests}/ceil({c.requests}/{c.slots}) = {c.bound_waves:.2f}:"
            f" {_count(c.requests, 'equal request')} on {_count(c.slots, 'equal slot')} go in"
            f" {_count(waves, 'wave')}."
        ),
        (
            f"Provable bound {c.bound_provable:.2f}: with every piece at the best seen on each node,"
            f" no schedule ends before {c.provable_makespan_s:.2f} s."
        ),
        f"Efficiency {c.efficiency:.0%} of the {c.efficiency_against} bound.",
    ]
    if len(set(c.speeds.values())) > 1:
        speeds = ", ".join(f"{called.get(node, node[:8])} {speed:.2f}" for node, speed in c.speeds.items())
        lines.append(f"Speed of one slot, the node alone being 1: {speeds}.")
    if c.why:
        lines.append(c.why)
    return [*lines, *c.notes]


def _check(alone: Sequence[LegResult], together: Sequence[LegResult]) -> NodeId:
    """Return the node of the legs alone, or raise ValueError."""
    if not alone or not together:
        raise ValueError("a comparison needs at least one leg alone and one together")
    legs = (*alone, *together)
    if len({len(leg.requests) for leg in legs}) != 1 or not legs[0].requests:
        raise ValueError("every leg must have the same requests, and at least one")
    if min(service.service_s for leg in legs for service in leg.requests) <= 0.0:
        raise ValueError("a request that took no time was not measured")
    if min(leg.makespan_s for leg in legs) <= 0.0:
        raise ValueError("a leg that took no time was not measured")
    homes = {service.place.node for leg in alone for service in leg.requests}
    if len(homes) != 1:
        raise ValueError("the legs alone must run on one node")
    return homes.pop()


def _best_observed(legs: Sequence[LegResult]) -> list[dict[NodeId, float]]:
    """Per request, the least seconds that it took on each node, over all legs."""
    rows = []
    for piece in zip(*(leg.requests for leg in legs), strict=True):
        best: dict[NodeId, float] = {}
        for service in piece:
            node = service.place.node
            best[node] = min(best.get(node, service.service_s), service.service_s)
        rows.append(best)
    return rows


def _speeds(together: Sequence[LegResult], sizes: Sequence[float], home: NodeId) -> dict[NodeId, float]:
    """Speed of a slot of each node seen at work together, relative to the home node in the same legs.

    The same legs, because nodes that share a machine slow each other, and then all of them alike.
    """
    seen: defaultdict[NodeId, list[float]] = defaultdict(list)
    for leg in together:
        for service, size in zip(leg.requests, sizes, strict=True):
            seen[service.place.node].append(size / service.service_s)
    speeds = {node: median(values) for node, values in seen.items()}
    home_speed = speeds.get(home, 1.0)
    return {node: speeds[node] / home_speed for node in sorted(speeds, key=lambda node: (node != home, node))}


def _capacity(speeds: Mapping[NodeId, float], slots: Mapping[NodeId, int], home: NodeId) -> float:
    """Speedup over the node alone if work could be cut at will; a node not seen at work counts as equal."""
    rates = {node: count * speeds.get(node, 1.0) for node, count in slots.items()}
    return capacity_bound(rates.values()) * max(rates.values()) / rates[home]


def _doubts(
    beyond_waves: float, speeds: Mapping[NodeId, float], sizes: Sequence[float], at_once: int
) -> list[str]:
    """Why the waves bound is not one here; empty where it is."""
    doubts = []
    if at_once > 1:
        doubts.append(
            f"The node alone works on {at_once} requests at once, which the waves bound does not know."
        )
    spread = max(1.0, *speeds.values()) / min(1.0, *speeds.values())
    if spread > EQUAL_SPEEDS:
        doubts.append(
            f"The nodes were not equal (the fastest {spread:.1f} times the slowest): the waves bound is exact"
            " only for equal nodes."
        )
    longest, shortest = max(sizes), min(sizes)
    if beyond_waves > 1.0 + 1e-9 and longest / shortest > EQUAL_PIECES:
        doubts.append(
            "The measurement beats the waves bound, which is for equal pieces, because the pieces were not"
            f" equal: alone, the longest took {longest:.1f} s, the shortest {shortest:.1f} s."
        )
    elif beyond_waves > 1.0 + 1e-9:
        doubts.append(
            "The measurement beats the waves bound though the pieces were about equal: the legs alone lost"
            " time beside the pieces, or it is measuring noise."
        )
    return doubts


def _judge(speedup: float, waves: float, provable: float, doubts: list[str]) -> tuple[float, str | None]:
    """Efficiency in (0, 1], and why it is not against the waves bound; None if it is."""
    if not doubts:
        return min(speedup / waves, 1.0), None
    if speedup > provable:
        doubts = [*doubts, "It is within measuring noise of the provable bound."]
    return min(speedup / provable, 1.0), " ".join(doubts)


def _median_leg(legs: Sequence[LegResult]) -> LegResult:
    middle = median_low(leg.makespan_s for leg in legs)
    return next(leg for leg in legs if leg.makespan_s == middle)


def _notes(requests: int, speeds: Mapping[NodeId, float], slots: Mapping[NodeId, int]) -> tuple[str, ...]:
    notes = []
    if len(slots) == 1:
        notes.append("Only one node took part: there was nothing to balance.")
    elif idle := sum(node not in speeds for node in slots):
        notes.append(f"{_count(idle, 'node')} of {len(slots)} did no work together.")
    if max(speeds.values()) > EQUAL_SPEEDS:
        notes.append(
            "A node is faster than the one used alone: this is no speedup over the best single node."
        )
    if requests < ANECDOTE_REQUESTS:
        notes.append(f"Fewer than {ANECDOTE_REQUESTS} requests: an anecdote, not a statistic.")
    return tuple(notes)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"

"""How fast it could have been: bounds on speedup and on makespan, each with the source of its formula.

The model is that of unrelated machines, R||Cmax in the notation of Graham, Lawler, Lenstra and Rinnooy Kan
(1979): each request is served whole, on one slot of one node, for at least the seconds given for that node.
A node with s slots counts as s independent machines, each as fast as the node is for one request alone.
No engine does better than that, so what is a bound there is a bound here.

Services: one mapping per request, node -> seconds. A node left out cannot serve that request.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from operator import add, mul
from typing import TypeVar

N = TypeVar("N", bound=Hashable)
V = TypeVar("V")

FLUID_STEPS = 24  # improvements of the prices; the first prices are exact already for nodes of steady ratio
STEEP = 8  # of the first prices: what is half used up counts next to nothing; found by trying 1 to 8
SUBSETS = 24  # how many "hardest k requests" are counted out, and how many late releases are looked at
RELEASES_WORK = 4096  # releases looked at times requests: keeps a report of thousands under half a second
EXACT_REQUESTS = 10  # an agent's fan-out; above, the relaxations are close and the search is long
EXACT_STEPS = 20_000  # placements tried before the search gives up: tens of milliseconds


def waves_bound(requests: int, slots: int) -> float:
    """Speedup of equal requests on equal one-slot nodes over one of them: N / ceil(N / slots).

    The makespan of N unit tasks on m identical machines is ceil(N / m) (Graham et al. 1979, P|p_j=1|Cmax).
    Exact for equal requests and equal nodes, and a bound for nothing else. Raises ValueError below one.
    """
    if requests < 1 or slots < 1:
        raise ValueError("the waves bound needs at least one request and one slot")
    return requests / math.ceil(requests / slots)


def capacity_bound(rates: Iterable[float]) -> float:
    """Speedup over the best node if work could be cut at will: sum of rates / best rate.

    A machine of relative speed s_i does at most s_i * T work in T seconds (uniform machines, Q|pmtn|Cmax;
    Horvath, Lam and Sethi 1977). ``rates`` in any one unit, one per node, all slots of it together. Raises
    ValueError if there is none, or none above zero.
    """
    rates = list(rates)
    if not rates or min(rates) < 0.0 or max(rates) <= 0.0:
        raise ValueError("the capacity bound needs the rate of at least one node")
    return sum(rates) / max(rates)


def provable_makespan(
    services: Sequence[Mapping[N, float]],
    slots: Mapping[N, int],
    releases: Sequence[float] | None = None,
    uses: Sequence[Mapping[N, Sequence[float]]] | None = None,
) -> float:
    """Seconds from the first release below which no schedule can end; 0.0 for no requests.

    The largest of the bounds of this module over all requests, and, with ``releases`` (seconds, one per
    request), of "a release + the bound of what is released then or later". The exact optimum where it is
    found within EXACT_STEPS. ``uses``: what else of a node a request takes, as in throughput_bound. Raises
    ValueError if a request can be served nowhere, or a service is negative.
    """
    rows = [_usable(row, slots) for row in services]
    if not rows:
        return 0.0
    releases = [0.0] * len(rows) if releases is None else releases
    if len(releases) != len(rows):
        raise ValueError("there must be one release per request")
    if uses is not None and len(uses) != len(rows):
        raise ValueError("there must be one row of uses per request")
    first = min(releases)
    bound = max(release - first + min(row.values()) for row, release in zip(rows, releases, strict=True))
    looked_at = max(2, min(SUBSETS, RELEASES_WORK // len(rows)))
    for start in _spread(sorted(set(releases)), looked_at):
        later = [index for index, release in enumerate(releases) if release >= start]
        burst = _burst_bound([rows[index] for index in later], slots)
        if uses is not None:
            burst = max(burst, throughput_bound([uses[index] for index in later]))
        bound = max(bound, start - first + burst)
    return bound


def longest_bound(services: Sequence[Mapping[N, float]]) -> float:
    """The longest request on its best node (max_j p_j of McNaughton 1959, at the best machine)."""
    return max(min(row.values()) for row in services)


def fluid_bound(services: Sequence[Mapping[N, float]], slots: Mapping[N, int]) -> float:
    """The makespan if requests could be cut and spread over the nodes at will.

    The linear relaxation of R||Cmax (Lawler and Labetoulle 1978; Lenstra, Shmoys and Tardos 1990), through
    its dual: with prices y_i >= 0 on the nodes, sum_i slots_i * y_i = 1, every T that can be kept has
    T >= sum_j min_i y_i * p_ij. Any prices give a true bound; a few subgradient steps look for good ones.
    For nodes whose speeds differ by a factor it is sum of work / sum of speeds.
    """
    return throughput_bound(
        [{node: (service / slots[node],) for node, service in row.items()} for row in services]
    )


def throughput_bound(uses: Sequence[Mapping[N, Sequence[float]]]) -> float:
    """The same for nodes that have several things to run out of: slots, reading, writing.

    ``uses``: per request, node -> seconds for which it would take up all of each of them (the same number
    for every request). An engine writes no more than ``Rates`` allow however many slots are full, and
    prompts that are read at once share its prefill rate: so a request takes tokens / rate of either.
    """
    nodes = list(dict.fromkeys(node for row in uses for node in row))
    own = {node: [row[node] for row in uses if node in row] for node in nodes}
    prices = {node: _prices(rows, only_scarcest=True) for node, rows in own.items()}
    best = 0.0
    for step in range(FLUID_STEPS):
        scale = sum(sum(paid) for paid in prices.values())
        prices = {node: [price / scale for price in paid] for node, paid in prices.items()}
        bound, loads = 0.0, {node: [0.0] * len(paid) for node, paid in prices.items()}
        for row in uses:
            cost, cheapest = _cheapest(row, prices)
            bound += cost
            loads[cheapest] = [*map(add, loads[cheapest], row[cheapest])]
        best = max(best, bound)
        if bound <= 0.0:
            break
        if step == 0:
            prices = {node: _prices(rows, only_scarcest=False) for node, rows in own.items()}
            continue
        for node, paid in prices.items():  # what is loaded above the bound is worth more than its price
            for thing, load in enumerate(loads[node]):
                paid[thing] *= math.exp(0.5 * (min(load / bound, 2.0) - 1.0) / (1.0 + step))
    return best


def counting_bound(services: Sequence[Mapping[N, float]], slots: Mapping[N, int]) -> float:
    """The least T in which the nodes can hold as many requests as there are, however they are picked.

    In T seconds a slot ends at most as many requests as its shortest ones fit into T, and a node's s slots
    no more than its shortest ones fit into s * T. Looked at for the hardest k requests, for several k: with
    equal nodes and k = q * slots + 1 this is the pairing bound, "one slot takes q + 1 of them, at least the
    q + 1 shortest of these" (Dell'Amico and Martello 1995, L3); with equal requests it counts waves.
    """
    hardest = sorted(services, key=lambda row: min(row.values()), reverse=True)
    total = sum(slots[node] for node in dict.fromkeys(node for row in services for node in row))
    sizes = {*_spread(range(1, len(hardest) + 1, total), SUBSETS), len(hardest)}
    return max(_time_to_hold(hardest[:size], slots) for size in sizes)


def exact_makespan(services: Sequence[Mapping[N, float]], slots: Mapping[N, int]) -> float | None:
    """The optimum of R||Cmax by branch and bound; None if it was not found within EXACT_STEPS.

    Hardest request first, tried where it would end first; a branch is left when its work, spread evenly over
    all slots, does not end before the best schedule found.
    """
    rows = sorted(services, key=lambda row: min(row.values()), reverse=True)
    loads = {node: [0.0] * min(slots[node], len(rows)) for row in rows for node in row}
    machines = sum(len(slot_loads) for slot_loads in loads.values())
    rest = [*accumulate((min(row.values()) for row in reversed(rows)), initial=0.0)][::-1]
    best, steps = math.inf, 0

    def place(index: int, makespan: float, work: float) -> None:
        nonlocal best, steps
        if index == len(rows):
            best = makespan
            return
        row = rows[index]
        ends = {
            (loads[node][slot] + row[node], node): slot for node in row for slot in range(len(loads[node]))
        }
        for end, node in sorted(ends, key=lambda choice: choice[0]):  # equal slots of a node fell together
            steps += 1
            done = work + row[node]
            if steps > EXACT_STEPS or max(end, makespan) >= best:
                return
            if (done + rest[index + 1]) / machines >= best:
                continue
            slot = ends[end, node]
            before, loads[node][slot] = loads[node][slot], end
            place(index + 1, max(makespan, end), done)
            loads[node][slot] = before

    place(0, 0.0, 0.0)
    return best if steps <= EXACT_STEPS else None


def best_services(
    observed: Sequence[Mapping[N, float]], sizes: Sequence[float], slots: Mapping[N, int]
) -> list[dict[N, float]]:
    """Each request's seconds on every node with slots, at the best that was seen there: for the bounds.

    ``observed``: per request, node -> the least seconds it took there. ``sizes``: per request, its work in
    any one unit above zero (tokens, or seconds on one node). A node's pace is the least seconds per unit seen
    on it. A request takes what it took on a one-slot node, else its size at the node's pace: where slots
    share an engine, what it took is not what it would take alone. A node not seen at work counts as fast as
    the fastest seen. No service is above what was observed, so what happened never beats the bound.
    Raises ValueError if nothing was observed.
    """
    paces: dict[N, float] = {}
    for row, size in zip(observed, sizes, strict=True):
        for node, service in row.items():
            paces[node] = min(paces.get(node, math.inf), service / size)
    if not paces:
        raise ValueError("no request was seen on any node")
    fastest = min(paces.values())
    return [
        {
            node: row[node] if count == 1 and node in row else size * paces.get(node, fastest)
            for node, count in slots.items()
        }
        for row, size in zip(observed, sizes, strict=True)
    ]


def _burst_bound(services: Sequence[Mapping[N, float]], slots: Mapping[N, int]) -> float:
    if len(services) <= EXACT_REQUESTS and (exact := exact_makespan(services, slots)) is not None:
        return exact
    return max(longest_bound(services), fluid_bound(services, slots), counting_bound(services, slots))


def _time_to_hold(services: Sequence[Mapping[N, float]], slots: Mapping[N, int]) -> float:
    """The least time in which the nodes' counts, added up, reach the number of these requests."""
    sums = {
        node: list(accumulate(sorted(row[node] for row in services if node in row)))
        for node in dict.fromkeys(node for row in services for node in row)
    }
    shared = {node: [total / slots[node] for total in totals] for node, totals in sums.items()}
    times = sorted({time for totals in (*sums.values(), *shared.values()) for time in totals})

    def held(time: float) -> int:
        alone = {node: slots[node] * bisect_right(sums[node], time) for node in sums}
        return sum(min(alone[node], bisect_right(shared[node], time)) for node in sums)

    return times[bisect_left(times, len(services), key=held)]


def _usable(row: Mapping[N, float], slots: Mapping[N, int]) -> dict[N, float]:
    usable = {node: service for node, service in row.items() if slots.get(node, 0) > 0}
    if not usable:
        raise ValueError("a request can be served on no node that has a slot")
    if not all(0.0 <= service < math.inf for service in usable.values()):
        raise ValueError("a service must be a number of seconds, zero or more")
    return usable


def _cheapest(row: Mapping[N, Sequence[float]], prices: Mapping[N, Sequence[float]]) -> tuple[float, N]:
    """What a request costs at the cheapest node, and which that is; of equal ones the first.

    Written out for one thing and for three, as they are: a report of thousands asks this 100,000 times.
    """
    least, cheapest = math.inf, next(iter(row))
    for node, use in row.items():
        price = prices[node]
        if len(use) == 1:
            cost = price[0] * use[0]
        elif len(use) == 3:
            cost = price[0] * use[0] + price[1] * use[1] + price[2] * use[2]
        else:
            cost = sum(map(mul, price, use))
        if cost < least:
            least, cheapest = cost, node
    return least, cheapest


def _prices(uses: Sequence[Sequence[float]], *, only_scarcest: bool) -> list[float]:
    """One over the mean use for what a node runs out of first, and less for the rest."""
    means = [sum(use) / len(uses) for use in zip(*uses, strict=True)]
    scarce = max(means)
    if scarce <= 0.0:
        return [1e12 for _ in means]
    parts = [mean / scarce for mean in means]
    return [(float(part == 1.0) if only_scarcest else part**STEEP) / scarce for part in parts]


def _spread(values: Sequence[V], limit: int) -> list[V]:
    """At most ``limit`` of the values, evenly spread, first and last among them."""
    if len(values) <= limit:
        return list(values)
    return [values[round(index * (len(values) - 1) / (limit - 1))] for index in range(limit)]

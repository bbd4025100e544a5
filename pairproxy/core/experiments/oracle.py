"""What could have been: a burst planned with the true lengths known, the longest first (E4).

Each request goes where the node's whole work would then end soonest, one node's work being done at the rate
of all of its slots; then the node that ends last hands over requests as long as that helps. What comes of it
is played on the simulated GPUs, exactly.
"""

from collections.abc import Mapping, Sequence

from pairproxy.core.models import AttemptId, NodeId, RequestId
from pairproxy.core.simulated_gpu import Phase, SimulatedGpu
from pairproxy.core.workload import MODEL, SimNode, SimRequest

EXCHANGES = 40  # requests handed over at most


def known_lengths_makespan_s(nodes: Sequence[SimNode], requests: Sequence[SimRequest]) -> float:
    """The makespan of a burst on nodes of one engine each, without caches and transport."""
    able = {node.node: node for node in nodes if node.engines}
    order = sorted(requests, key=lambda one: -one.output_tokens)
    given: dict[NodeId, list[SimRequest]] = {node: [] for node in able}
    for request in order:
        best = min(able, key=lambda node: _about_s(able[node], [*given[node], request]))
        given[best].append(request)
    ends = {node: played_s(able[node], given[node]) for node in able}
    for _ in range(EXCHANGES):
        if not _hand_over(able, given, ends):
            break
    return max(ends.values())


def played_s(node: SimNode, requests: Sequence[SimRequest]) -> float:
    """Seconds in which one node does them in this order, each as soon as a slot is free."""
    engine = node.engines[0]
    gpu = SimulatedGpu(engine.slots)
    gpu.preload(0.0, MODEL)
    at, waiting = 0.0, list(enumerate(requests))
    while waiting or gpu.in_flight:
        while waiting and gpu.in_flight < engine.slots:
            index, one = waiting.pop(0)
            attempt = AttemptId(RequestId(str(index)), 1)
            gpu.start(at, attempt, MODEL, engine.rates[MODEL], one.prompt_tokens, one.output_tokens)
        while (change := gpu.next_change()) is not None:
            at = change
            if any(reached.phase is Phase.DECODE for reached in gpu.advance(at)):
                break
    return at


def _about_s(node: SimNode, requests: Sequence[SimRequest]) -> float:
    """All slots writing, and never sooner than the longest alone."""
    engine = node.engines[0]
    rates = engine.rates[MODEL]
    share = rates.share(min(engine.slots, len(requests)))
    works = [
        one.prompt_tokens / rates.prefill + one.output_tokens / (rates.decode * share) for one in requests
    ]
    return max(sum(works) / engine.slots, *works)


def _hand_over(
    able: Mapping[NodeId, SimNode], given: dict[NodeId, list[SimRequest]], ends: dict[NodeId, float]
) -> bool:
    """Let the node that ends last give one request away, if all of it ends sooner then."""
    last = max(ends, key=lambda node: ends[node])
    for index in range(len(given[last])):
        rest = given[last][:index] + given[last][index + 1 :]
        rest_s = played_s(able[last], rest)
        for other in able:
            if other == last or rest_s >= ends[last]:
                continue
            more = sorted([*given[other], given[last][index]], key=lambda one: -one.output_tokens)
            more_s = played_s(able[other], more)
            if more_s < ends[last]:
                given[last], given[other] = rest, more
                ends[last], ends[other] = rest_s, more_s
                return True
    return False

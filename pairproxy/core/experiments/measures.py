"""What a simulated run is worth: beside the best single node alone, and beside a bound."""

from collections.abc import Sequence
from dataclasses import replace

from pairproxy.core.accounting.bounds import fluid_bound, provable_makespan
from pairproxy.core.accounting.services import percentile
from pairproxy.core.models import BLOCK_TOKENS
from pairproxy.core.rules import Rules
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import MODEL, SimEngine, SimNode, SimRequest, SimResult
from pairproxy.core.workloads.bursts import capacity

HOPELESS = 0.6  # a node that could not be done in so much of the best time if it never paused is not tried


def alone(
    nodes: Sequence[SimNode], requests: Sequence[SimRequest], rules: Rules, seed: int = 0, *, tries: int = 1
) -> SimResult:
    """The same requests on the one node that does them soonest, asked there; arrivals and loops are kept.

    ``tries``: how many concurrencies each node may try: all of its slots, half, a quarter ... What it does
    alone it does at its best. The speeds are those it has, not those it believes in.
    """
    best: SimResult | None = None
    usable = {repr((node.engines, node.slowed)): node for node in nodes if node.engines}
    for node in sorted(usable.values(), key=lambda one: -capacity([one], requests)):
        least_s = HOPELESS * len(requests) / capacity([node], requests, _cacheable(node, requests))
        if best is not None and least_s > best.makespan_s:
            continue
        for slots in _concurrencies(node.engines[0].slots, tries):
            engine = replace(node.engines[0], slots=slots, measured=1.0)
            home = SimNode(node.node, (engine,), slowed=node.slowed)
            asked = [replace(request, origin=node.node) for request in requests]
            result = simulate([home], asked, rules, seed)
            if best is None or result.makespan_s < best.makespan_s:
                best = result
    if best is None:
        raise ValueError("no node has an engine")
    return best


def lower_bound_s(nodes: Sequence[SimNode], requests: Sequence[SimRequest]) -> float:
    """Seconds below which no schedule ends: of a burst, or of arrivals, without caches and loops.

    The largest of the provable bound, which takes each slot for a machine of its own, and of what all engines
    together can read and write.
    """
    first = min(request.at for request in requests)
    rows = [{node.node: _seconds(node, request) for node in nodes if node.engines} for request in requests]
    slots = {node.node: node.engines[0].slots for node in nodes if node.engines}
    provable = provable_makespan(rows, slots, [request.at - first for request in requests])
    prompts = sum(request.prompt_tokens for request in requests)
    outputs = sum(request.output_tokens for request in requests)
    return max(provable, _throughput_bound_s(nodes, prompts, outputs))


def chains_bound_s(nodes: Sequence[SimNode], requests: Sequence[SimRequest]) -> float:
    """Seconds below which chains cannot end, whatever is cached: each block is read once at least.

    The longest chain on the fastest node, tool time included; all work cut at will over all slots; and what
    all engines together can read and write.
    """
    new = new_tokens(requests)
    ends: list[float] = []
    rows = []
    for request, tokens in zip(requests, new, strict=True):
        read = replace(request, prompt_tokens=tokens)
        row = {node.node: _seconds(node, read) for node in nodes if node.engines}
        start = max([request.at, *(ends[before] + request.think_s for before in request.waits_for)])
        ends.append(start + min(row.values()))
        rows.append(row)
    slots = {node.node: node.engines[0].slots for node in nodes if node.engines}
    outputs = sum(request.output_tokens for request in requests)
    first = min(request.at for request in requests)
    return max(max(ends) - first, fluid_bound(rows, slots), _throughput_bound_s(nodes, sum(new), outputs))


def new_tokens(requests: Sequence[SimRequest]) -> list[int]:
    """Of each prompt the tokens that no request before it had in its prompt or reply; one at least."""
    seen: set[int] = set()
    counts = []
    for request in requests:
        known = 0
        while known < len(request.blocks) and request.blocks[known] in seen:
            known += 1
        counts.append(max(request.prompt_tokens - known * BLOCK_TOKENS, 1))
        seen.update(request.blocks, request.reply_blocks)
    return counts


def ideal_hit_rate(requests: Sequence[SimRequest]) -> float:
    """The part of all prompt tokens that one node with endless memory would find in its cache."""
    prompts = sum(request.prompt_tokens for request in requests)
    return 1.0 - sum(new_tokens(requests)) / prompts


def refused_share(result: SimResult) -> float:
    """Dispatches that found the slot taken, of all."""
    return result.refused / max(len(result.order), 1)


def extra_share(nodes: Sequence[SimNode], result: SimResult) -> float:
    """Tokens written by attempts that were given up, of those that replies have; about, and not less.

    As if each had written alone on its engine, from its dispatch on.
    """
    decode = {node.node: node.engines[0].rates[MODEL].decode for node in nodes if node.engines}
    given_up = sum(
        (attempt.ended_at - attempt.dispatched_at) * decode[attempt.place.node]
        for record in result.records
        for attempt in record.attempts
        if not attempt.is_served
    )
    return given_up / max(sum(record.usage.output_tokens or 0 for record in result.records), 1)


def mean_latency_s(result: SimResult) -> float:
    """From arrival to the end."""
    return sum(record.latency_s for record in result.records) / len(result.records)


def ttft_s(result: SimResult, share: float, skip: int = 0) -> float:
    """A percentile of the seconds to the first byte; ``skip``: the first requests, in which caches fill."""
    values = [value for value in result.ttfts_s[skip:] if value is not None]
    return percentile(values, share) or 0.0


def hit_rate(result: SimResult, skip: int = 0) -> float:
    """The part of the prompt tokens that was cached."""
    return sum(result.cached_tokens[skip:]) / max(sum(result.prompt_tokens[skip:]), 1)


def _seconds(node: SimNode, request: SimRequest) -> float:
    rates = node.engines[0].rates[MODEL]
    return request.prompt_tokens / rates.prefill + request.output_tokens / rates.decode


def _throughput_bound_s(nodes: Sequence[SimNode], prompts: float, outputs: float) -> float:
    """All reading, and all writing, at the rate of all engines with all slots in use."""
    engines: list[SimEngine] = [engine for node in nodes for engine in node.engines]
    read = sum(engine.rates[MODEL].prefill for engine in engines)
    write = sum(
        engine.slots * engine.rates[MODEL].decode * engine.rates[MODEL].share(engine.slots)
        for engine in engines
    )
    return max(prompts / read, outputs / write)


def _concurrencies(slots: int, tries: int) -> list[int]:
    """All of the slots, half of them, and so on."""
    return list(dict.fromkeys(max(slots >> halving, 1) for halving in range(tries)))


def _cacheable(node: SimNode, requests: Sequence[SimRequest]) -> float:
    has_cache = any(engine.cache_tokens for engine in node.engines)
    return ideal_hit_rate(requests) if has_cache else 0.0

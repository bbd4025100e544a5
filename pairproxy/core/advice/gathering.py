"""From a run and what is known of the nodes to Evidence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pairproxy.core.accounting.losses import load_s
from pairproxy.core.accounting.paces import cached_of
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.works import Places, holding, slots_of
from pairproxy.core.advice.evidence import (
    Elsewhere,
    Evidence,
    NodeUse,
    Prefixes,
    Service,
    Timing,
)
from pairproxy.core.advice.memory import Memory
from pairproxy.core.discipline import Finding
from pairproxy.core.models import ModelName, NodeId, Outcome, Place, Rates
from pairproxy.core.whatif.pieces import Piece, pieces_of
from pairproxy.core.whatif.recording import RecordedRequest, Recording, record

MOST_REQUESTS = 1000  # of a run that are replayed, its first ones: a second or two for each trial


@dataclass(frozen=True, slots=True)
class Known:
    """What the origin knows of the nodes; ``elsewhere`` are those that could take none of it."""

    own: NodeId
    policy: str
    places: Places
    kinds: Mapping[Place, str]
    caches: Mapping[Place, int]
    names: Mapping[str, str]
    findings: Sequence[Finding] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    memory: Memory = field(default_factory=Memory)
    service: Service = field(default_factory=Service)


def gather(run: Run, known: Known) -> Evidence:
    """Look at the first MOST_REQUESTS requests of a run that ended well."""
    done = [one for one in run.records if one.outcome is Outcome.DONE and one.final is not None]
    run = Run(run.id, run.name, tuple(done[:MOST_REQUESTS]) or run.records[:1])
    pieces = pieces_of(run)
    recording = record(run, known.own, known.policy, known.places, known.kinds, known.caches, known.names)
    told = [one.usage.prefill_s is not None and one.usage.decode_s is not None for one in run.records]
    service = replace(known.service, transport_s=_transport_s(run.records)) if any(told) else known.service
    return Evidence(
        recording=recording,
        timing=_timing(run.records, known.places),
        prefixes=_prefixes(run.records, pieces, recording, known.findings),
        nodes=tuple(_uses(run, known)),
        elsewhere=known.elsewhere,
        memory=known.memory,
        service=service,
    )


class _Stream(NamedTuple):
    """A reply that came as a stream of counted tokens."""

    record: RequestRecord
    place: Place
    dispatched_at: float  # or when its model was loaded: that is no reading
    first_at: float
    rates: Rates

    @property
    def prompt(self) -> int:
        """Tokens."""
        return self.record.usage.prompt_tokens or 0

    @property
    def later_tokens(self) -> int:
        """All that it wrote but the first, which ends the reading."""
        return max((self.record.usage.output_tokens or 0) - 1, 0)


def _timing(records: Sequence[RequestRecord], places: Places) -> Timing:
    count = max(len(records), 1)
    whole = Timing(
        latency_s=sum(one.latency_s for one in records) / count,
        queue_s=sum(one.queue_s for one in records) / count,
    )
    streams = [*_streams(records, places)]
    if not streams:
        return whole
    return _written(_read(whole, streams, places), streams)


def _streams(records: Sequence[RequestRecord], places: Places) -> Iterator[_Stream]:
    for one in records:
        final, usage = one.final, one.usage
        if final is None or final.first_byte_at is None or not one.is_streaming or one.continued:
            continue
        rates = places.get(final.place, (0, {}))[1].get(one.model)
        if rates is not None and usage.prompt_tokens and usage.output_tokens:
            loaded_at = min(final.dispatched_at + load_s(one, final), final.first_byte_at)
            yield _Stream(one, final.place, loaded_at, final.first_byte_at, rates)


def _read(timing: Timing, streams: Sequence[_Stream], places: Places) -> Timing:
    best: dict[ModelName, float] = {}
    for _, rates_of in places.values():
        for model, rates in rates_of.items():
            best[model] = max(best.get(model, 0.0), rates.prefill)

    def mean(value: Callable[[_Stream], float]) -> float:
        return sum(map(value, streams)) / len(streams)

    return replace(
        timing,
        ttft_s=mean(lambda one: one.record.ttft_s or 0.0),
        read_s=mean(lambda one: one.first_at - one.dispatched_at),
        alone_read_s=mean(lambda one: max(one.prompt - cached_of(one.record), 1) / one.rates.prefill),
        best_read_s=mean(lambda one: one.prompt / best[one.record.model]),
    )


def _written(timing: Timing, streams: Sequence[_Stream]) -> Timing:
    writing = [one for one in streams if one.later_tokens]
    tokens = sum(one.later_tokens for one in writing)
    if not tokens:
        return timing
    spent_s = sum(one.record.ended_at - one.first_at for one in writing)
    return replace(
        timing,
        tpot_s=spent_s / tokens,
        alone_tpot_s=sum(one.later_tokens / one.rates.decode for one in writing) / tokens,
        company=_company([(one.place, one.first_at, one.record.ended_at) for one in writing]),
    )


def _company(spans: Sequence[tuple[Place, float, float]]) -> float | None:
    """With how many a request wrote at its place on average, itself included, by the second."""
    total_s = sum(end - start for _, start, end in spans)
    if total_s <= 0.0:
        return None
    together_s = 0.0
    for place, start, end in spans:
        together_s += sum(
            max(min(end, other_end) - max(start, other_start), 0.0)
            for other, other_start, other_end in spans
            if other == place
        )
    return together_s / total_s


def _prefixes(
    records: Sequence[RequestRecord],
    pieces: Sequence[Piece],
    recording: Recording,
    findings: Sequence[Finding],
) -> Prefixes:
    told = [one.usage for one in records if one.usage.cached_tokens is not None]
    asked = sum(usage.prompt_tokens or 0 for usage in told)
    reached = sum(usage.cached_tokens or 0 for usage in told) / asked if asked else None
    tokens = sum(one.prompt_tokens for one in recording.requests)
    shared = sum(map(_shared_tokens, recording.requests))
    clients = {one.id: one.client for one in records}
    return Prefixes(
        prompt_tokens=asked or tokens,
        reached=reached,
        possible=max(shared / tokens if tokens else 0.0, reached or 0.0),
        findings=tuple(
            (finding, theirs)
            for finding in findings
            if len(
                theirs := tuple(
                    index
                    for index, piece in enumerate(pieces)
                    if piece.model == finding.model and clients.get(piece.attempt.request) == finding.client
                )
            )
            > 1
        ),
    )


def _shared_tokens(one: RecordedRequest) -> float:
    """Blocks are equal pieces of a prompt's text, so they are counted as equal parts of its tokens."""
    return one.prompt_tokens * one.shared_blocks / one.blocks if one.blocks else 0.0


def _uses(run: Run, known: Known) -> list[NodeUse]:
    slots = slots_of(holding(known.places, (one.model for one in run.records)))
    busy: dict[NodeId, float] = {}
    served: dict[NodeId, int] = {}
    for one in run.records:
        for service in one.services():
            node = service.place.node
            busy[node] = busy.get(node, 0.0) + service.service_s
            served[node] = served.get(node, 0) + service.is_reply
    span_s = max(run.makespan_s, 1e-9)
    return [
        NodeUse(
            node,
            known.names.get(node, node[:8]),
            count,
            served.get(node, 0),
            min(busy.get(node, 0.0) / (count * span_s), 1.0),
        )
        for node, count in slots.items()
    ]


def _transport_s(records: Sequence[RequestRecord]) -> float:
    """Mean of what a request took beyond its engine's own account of it, where engines give one."""
    beyond = []
    for one in records:
        usage, final = one.usage, one.final
        if final is None or usage.prefill_s is None or usage.decode_s is None:
            continue
        worked_s = usage.prefill_s + usage.decode_s + (usage.load_s or 0.0)
        beyond.append(max(final.ended_at - final.dispatched_at - worked_s, 0.0))
    return sum(beyond) / max(len(beyond), 1)


def speed_against(mine: Mapping[ModelName, Rates], theirs: Mapping[ModelName, Rates]) -> float | None:
    """How many times as fast a node writes as this one, by the models that both have; None: none."""
    both = [theirs[model].decode / mine[model].decode for model in mine if model in theirs]
    return sum(both) / len(both) if both else None

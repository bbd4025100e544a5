"""A run as it is written down to be replayed elsewhere: sizes, times, what belongs together; no word.

Prompts are not told by their hashes, which somebody could compare with those of texts he guesses, but by how
many blocks each begins with that an earlier one had too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.works import Places
from pairproxy.core.models import BLOCK_TOKENS, NodeId, Place
from pairproxy.core.whatif.company import as_in_the_run
from pairproxy.core.whatif.pieces import Piece, pieces_of

LEAST_LOAD_S = 0.5  # Ollama tells some hundredths of a second for a model that is in memory


@dataclass(frozen=True, slots=True)
class RecordedRates:
    """models.Rates under the names of JSON."""

    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    beta: float
    load_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RecordedPlace:
    """One engine that could have served some of the run."""

    node: str
    engine: str
    kind: str
    slots: int
    rates: dict[str, RecordedRates]  # by model
    cache_tokens: int = 0  # of its prefix cache, as far as it is known
    is_loaded: bool = True  # False: the run had to wait for its model


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request that was served. Times count from the start of the run."""

    model: str
    arrived_s: float
    service_s: float
    node: str
    prompt_tokens: int  # without those that were in a cache before the run
    output_tokens: int
    max_output_tokens: int | None = None
    client: int = 0  # clients are numbered
    after: int | None = None  # the index of the request whose reply it follows
    think_s: float = 0.0  # from that reply to its arrival; with joins from the end of the last of all
    blocks: int = 0  # of its prompt
    shared_blocks: int = 0  # the first so many are those of
    shared_with: int | None = None  # the request of this index
    is_streaming: bool = True
    joins: tuple[int, ...] = ()  # the indices of others that had to end before it: those of sub-agents


@dataclass(frozen=True, slots=True)
class Recording:
    """All that a replay needs. ``policy`` is the one that was in use."""

    run: str
    node: str  # the origin
    policy: str
    makespan_s: float
    requests: tuple[RecordedRequest, ...]
    places: tuple[RecordedPlace, ...] = ()
    left_out: int = 0  # requests that did not end well, or said nothing of their tokens
    names: dict[str, str] = field(default_factory=dict)  # node -> what a person calls it


def record(
    run: Run,
    own: NodeId,
    policy: str,
    places: Places,
    kinds: Mapping[Place, str],
    caches: Mapping[Place, int],
    names: Mapping[str, str],
) -> Recording:
    """Write down a run of the node ``own``, with what it knows of the places, corrected by the run."""
    pieces = pieces_of(run)
    places = as_in_the_run(pieces, places)
    return Recording(
        run=run.id,
        node=own,
        policy=policy,
        makespan_s=_makespan_s(pieces),
        requests=tuple(_requests(run, pieces)),
        places=tuple(
            _loading(_place(place, places, kinds.get(place, ""), caches.get(place, 0)), pieces)
            for place in places
        ),
        left_out=len(run.records) - len(pieces),
        names={node: name for node, name in names.items() if any(place.node == node for place in places)},
    )


def _requests(run: Run, pieces: list[Piece]) -> Iterator[RecordedRequest]:
    records = {record.id: record for record in run.records}
    clients: dict[str, int] = {}
    for piece, (count, holder) in zip(pieces, _shared([piece.blocks for piece in pieces]), strict=True):
        one = records[piece.attempt.request]
        yield RecordedRequest(
            model=piece.model,
            arrived_s=piece.arrived_at - run.started_at,
            service_s=piece.ended_at - piece.dispatched_at,
            node=piece.place.node,
            prompt_tokens=piece.unread if piece.blocks else piece.read,
            output_tokens=piece.output,
            max_output_tokens=one.max_output_tokens,
            client=clients.setdefault(one.client, len(clients)),
            after=piece.after,
            think_s=piece.think_s,
            joins=piece.joins,
            blocks=len(piece.blocks),
            shared_blocks=count,
            shared_with=holder,
            is_streaming=one.is_streaming,
        )


def blocks_of(requests: tuple[RecordedRequest, ...]) -> list[tuple[int, ...]]:
    """Each prompt's blocks, as numbers that are equal where the blocks were.

    Raises ValueError for what cannot be.
    """
    found: list[tuple[int, ...]] = []
    fresh = 0
    for index, one in enumerate(requests):
        start: tuple[int, ...] = ()
        if one.shared_with is not None:
            if not 0 <= one.shared_with < index:
                raise ValueError(
                    f"request {index} shares its beginning with one that does not come before it"
                )
            start = found[one.shared_with][: one.shared_blocks]
        rest = max(one.blocks - len(start), 0)
        found.append((*start, *range(fresh, fresh + rest)))
        fresh += rest
    return found


def reply_blocks_of(
    requests: tuple[RecordedRequest, ...], blocks: list[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """The blocks that each reply completes: with these the prompt of the next step goes on."""
    found: list[tuple[int, ...]] = [()] * len(requests)
    for step, own in zip(requests, blocks, strict=True):
        if step.after is not None:
            last = requests[step.after]
            if own[: len(blocks[step.after])] != blocks[step.after]:
                continue  # it is the first of a sub-agent, and has a prompt of its own
            found[step.after] = own[len(blocks[step.after]) :][: last.output_tokens // BLOCK_TOKENS]
    return found


def _shared(prompts: list[tuple[int, ...]]) -> list[tuple[int, int | None]]:
    """For each prompt, how many blocks it begins with that an earlier one had, and which one."""
    holder: dict[int, int] = {}
    found: list[tuple[int, int | None]] = []
    for index, blocks in enumerate(prompts):
        count = next((at for at, block in enumerate(blocks) if block not in holder), len(blocks))
        found.append((count, holder[blocks[count - 1]] if count else None))
        for block in blocks:
            holder.setdefault(block, index)
    return found


def _loading(place: RecordedPlace, pieces: list[Piece]) -> RecordedPlace:
    """The place with what the run saw of loading models there."""
    loads: dict[str, float] = {}
    for one in pieces:
        if (one.place.node, one.place.engine) == (place.node, place.engine) and one.load_s > LEAST_LOAD_S:
            loads[one.model] = max(loads.get(one.model, 0.0), one.load_s)
    rates = {
        model: replace(rates, load_s=loads.get(model, 0.0)) if loads else rates
        for model, rates in place.rates.items()
    }
    return replace(place, rates=rates, is_loaded=not loads)


def _makespan_s(pieces: list[Piece]) -> float:
    if not pieces:
        return 0.0
    return max(piece.ended_at for piece in pieces) - min(piece.arrived_at for piece in pieces)


def _place(place: Place, places: Places, kind: str, cache_tokens: int) -> RecordedPlace:
    slots, rates = places[place]
    return RecordedPlace(
        node=place.node,
        engine=place.engine,
        kind=kind,
        slots=slots,
        rates={
            model: RecordedRates(one.prefill, one.decode, one.beta, one.load_s)
            for model, one in rates.items()
        },
        cache_tokens=cache_tokens,
    )

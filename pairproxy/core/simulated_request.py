"""How a simulated request is named at each node, and what the nodes tell each other about it."""

from collections.abc import Iterator, Sequence

from pairproxy.core.commands import Command, Refuse
from pairproxy.core.errors import BrokenReply, Draining, PairproxyError, SlotsTaken
from pairproxy.core.events import AttemptFinished, Event, FirstByteReceived, RequestAbandoned
from pairproxy.core.models import (
    AttemptId,
    Dialect,
    EngineId,
    NodeId,
    Outcome,
    Request,
    RequestId,
    Usage,
)
from pairproxy.core.simulated_gpu import Phase
from pairproxy.core.workload import SimRequest

PATH = "/v1/chat/completions"


def name_of(index: int) -> RequestId:
    """The id of a request at its origin."""
    return RequestId(f"r{index}")


def index_of(request: RequestId) -> int:
    """Its place in the workload, from its id at its origin."""
    return int(request[1:])


def guest_name(origin: NodeId, attempt: AttemptId) -> RequestId:
    """The id of a peer's request, as the peer port makes it."""
    return RequestId(f"{origin}-{attempt.request}-{attempt.number}")


def request_of(
    name: RequestId, wanted: SimRequest, origin: NodeId | None = None, engine: EngineId | None = None
) -> Request:
    """What the ports make of it. ``origin`` and ``engine`` are what a peer says, None for a client's."""
    return Request(
        id=name,
        model=wanted.model,
        dialect=Dialect.OPENAI,
        path=PATH,
        is_streaming=wanted.is_streaming,
        prompt_tokens=wanted.prompt_tokens,
        max_output_tokens=wanted.max_output_tokens,
        client=origin or wanted.client,
        run=wanted.run,
        origin=origin,
        engine=engine,
        prefix=wanted.blocks if wanted.tells_blocks else (),
        chain=wanted.chain,
        needs=frozenset({"tools"}) if wanted.brings_tools else frozenset(),
    )


def phase_events(
    at: float, attempt: AttemptId, phase: Phase, wanted: SimRequest, cached: int | None = None
) -> list[Event]:
    """What a node is told at the end of prefill, or of decode. The GPU gives no timings, as over ``/v1``.

    A reply in one piece has its first byte at its end. ``cached``: prompt tokens that the engine says were
    cached; None: it does not say.
    """
    if phase is Phase.PREFILL:
        return [FirstByteReceived(at, attempt)] if wanted.is_streaming else []
    usage = Usage(
        prompt_tokens=wanted.prompt_tokens, cached_tokens=cached, output_tokens=wanted.output_tokens
    )
    end = AttemptFinished(at, attempt, Outcome.DONE, usage)
    return [end] if wanted.is_streaming else [FirstByteReceived(at, attempt), end]


def as_its_origin_reads(error: PairproxyError) -> PairproxyError:
    """What a node's refusal of a guest becomes on its way back."""
    if isinstance(error, SlotsTaken | Draining):
        return SlotsTaken("The node's slot went to somebody else.")
    return BrokenReply("The node could not serve the request.")


def ended_by(event: Event, commands: Sequence[Command]) -> Iterator[RequestId]:
    """The requests that ended by this, in whatever way."""
    if isinstance(event, AttemptFinished):
        yield event.attempt.request
    elif isinstance(event, RequestAbandoned):
        yield event.request
    for command in commands:
        if isinstance(command, Refuse):
            yield command.request

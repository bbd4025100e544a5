"""An engine, as the JSON of api.schema."""

from pairproxy.api.schema import EngineStatus, ReplicaStatus
from pairproxy.core.documents import EngineState


def engine_status(
    state: EngineState, port: int | None, *, is_up: bool = True, known: int = 0
) -> EngineStatus:
    """An engine as faces are told of it. ``port``: of its clients here, if it has one.

    ``known``: how many requests of this node run there; its own last word may be a second old.
    """
    replicas = tuple(
        ReplicaStatus(
            model=one.replica.model,
            identity=one.replica.identity,
            is_loaded=one.is_loaded,
            context_tokens=one.replica.context_tokens,
            prefill_tokens_per_s=one.rates.prefill,
            decode_tokens_per_s=one.rates.decode,
            continues=one.continues,
        )
        for one in state.replicas
    )
    return EngineStatus(
        state.engine,
        state.kind,
        state.version,
        state.slots,
        max(state.in_flight, known),
        replicas,
        port,
        is_up,
        state.foreign,
    )

"""Which node holds which model: GET /models."""

from typing import Literal

import msgspec

CellState = Literal["same", "different", "unknown", "missing", "away"]
"""Against the row's main content: this node's own where it has the model, else the one on most slots.

The same replica; other content; content that cannot be named; not there; the node is down, or its engine.
"""


class ModelCell(msgspec.Struct, frozen=True):
    """One model on one node: on ``engine``, or the best of several."""

    node: str
    state: CellState
    engine: str | None = None
    identity: str = ""  # "": missing, or not known
    is_loaded: bool = False
    context_tokens: int | None = None
    slots: int = 0
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    kind: str = ""  # of the engine
    quantization: str = ""  # as the engine lists it; "": it does not


class ModelRow(msgspec.Struct, frozen=True):
    """One model name. ``replicas`` counts the nodes among which its requests can be balanced."""

    model: str
    replicas: int
    cells: tuple[ModelCell, ...]  # one for each node of ModelMatrix.nodes, in that order
    differences: tuple[str, ...] = ()  # those that matter, in plain words, and why
    costs: str = ""  # what is lost by it, e.g. that no balancing is possible; "": nothing
    fix: str = ""  # what to do about it, a command where there is one; "": nothing to do


class ModelMatrix(msgspec.Struct, frozen=True):
    """GET /models. ``nodes``: this one first, then by name; ``names`` gives each its name."""

    node: str
    nodes: tuple[str, ...]
    names: dict[str, str]
    models: tuple[ModelRow, ...]  # by name
    away: tuple[str, ...] = ()  # of the nodes, those that are not there now
    left_out: int = 0  # models beyond those that one document holds, held by the fewest nodes

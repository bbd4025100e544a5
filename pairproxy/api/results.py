"""What commands print with --json that measured or simulated something. Heavier to import than the rest."""

import msgspec

from pairproxy.core.accounting.comparison import Comparison
from pairproxy.core.accounting.services import Tally
from pairproxy.core.whatif.replay import Replayed


class WhatIf(msgspec.Struct, frozen=True):
    """`pairproxy whatif`: a run as it would have been. ``model_error``: part by which the model is off."""

    replayed: Replayed
    model_error: float
    is_credible: bool
    speedup: float  # against the run as it was
    speedup_best: float | None  # against the best node alone


class Reply(msgspec.Struct, frozen=True):
    """What one sub-agent of the demo was told. The demo asks its own questions: nobody's text is in it."""

    client: str
    text: str


class DemoResult(msgspec.Struct, frozen=True):
    """`pairproxy demo`: the same job on one node and on all of them. ``per_node`` by the nodes' names."""

    nodes: int
    requests: int
    engine: str
    rounds: int
    discovered_by: str | None
    makespan_alone_s: float
    makespan_together_s: float
    speedup: float
    bound_waves: float
    bound_provable: float
    efficiency: float
    efficiency_against: str
    why: str | None
    per_node: dict[str, Tally]
    comparison: Comparison
    explanation: tuple[str, ...]
    replies: tuple[Reply, ...]


class BenchHere(msgspec.Struct, frozen=True):
    """`pairproxy bench --here`: the running cluster's own model, on this machine alone and on all nodes."""

    model: str
    comparison: Comparison
    explanation: tuple[str, ...]

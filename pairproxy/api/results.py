"""What commands print with --json that measured or simulated something. Heavier to import than the rest."""

from dataclasses import dataclass

import msgspec

from pairproxy.core.accounting.comparison import Comparison
from pairproxy.core.accounting.services import Tally
from pairproxy.core.advice.levers import Lever, Together
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


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one workload on one rig. Seconds, and speedups against the best single node."""

    alone_s: float  # measured on the best node
    lower_s: float  # no schedule ends before
    waves: float  # published for routers of this kind; exact for equal requests on equal nodes only
    capacity: float
    provable: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What one policy reached, over its rounds; medians where nothing else is said. Encodes as JSON."""

    policy: str
    makespans_s: tuple[float, ...]
    makespan_s: float
    spread: float  # (longest - shortest) / median
    speedup: float
    worst_speedup: float
    efficiency: float  # lower bound / makespan, at most 1
    hit_rate: float
    ttft_p50_s: float
    ttft_p90_s: float
    latency_p50_s: float
    mean_latency_s: float
    refused: float
    per_node: dict[str, int]  # of the round with the median makespan
    modelled_s: float | None  # what the simulator says of the same
    unhurried_s: float | None = None  # what it says of the same without fast-forward; None: that is the same
    unhurried_speedup: float | None = None  # against the best node alone, also without


class BenchNode(msgspec.Struct, frozen=True):
    """A node of a bench: tokens/s read and written by a request alone, contention, tokens its cache holds."""

    name: str
    slots: int
    prefill: float
    decode: float
    beta: float
    cached_tokens: int


class BenchResult(msgspec.Struct, frozen=True):
    """`pairproxy bench`: policies on daemons with paced engines, next to the bounds of the workload."""

    workload: str
    requests: int
    nodes: tuple[BenchNode, ...]
    fast_forward: float
    rounds: int
    seed: int
    best_node: str
    bounds: Bounds
    policies: tuple[Figures, ...]
    explanation: tuple[str, ...]


class BenchLevers(msgspec.Struct, frozen=True):
    """`pairproxy bench --levers`: a recorded run with each lever on, and all; ``verdicts`` in words."""

    run: str
    requests: int
    is_simulated: bool
    rounds: int
    levers: tuple[Lever, ...]
    sums: dict[str, Together]  # what of the gains was compared, in words -> whether they add up
    notes: tuple[str, ...]
    verdicts: dict[str, str]


class BenchHere(msgspec.Struct, frozen=True):
    """`pairproxy bench --here`: the running cluster's own model, on this machine alone and on all nodes."""

    model: str
    comparison: Comparison
    explanation: tuple[str, ...]

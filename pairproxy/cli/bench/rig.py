"""What a bench runs on: nodes with paced engines, as settings for daemons and as nodes for the simulator."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pairproxy.cli.demo.cluster import node_settings
from pairproxy.core.errors import PairproxyError
from pairproxy.core.experiments import rigs
from pairproxy.core.experiments.rigs import at_speeds
from pairproxy.core.models import NodeId, Rates
from pairproxy.core.workload import SimNode

CACHED_TOKENS = 150_000  # five agents' prompts: what a desktop GPU has room for beside a mid-size model
MOST_NODES = 8  # daemons on one machine, as a demo has at most
MOST_SLOTS = 64  # of a node: more connections at once than that are not what is measured here
BETA = 0.15  # llama.cpp's published curve

_SPEC = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]{0,31})=(?P<numbers>[0-9.]+(:[0-9.]+){2,4})")


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node: slots, tokens/s read and written by a request alone, contention, tokens its cache holds."""

    name: str
    slots: int
    prefill: float
    decode: float
    beta: float = BETA
    cached_tokens: int = CACHED_TOKENS

    @property
    def rates(self) -> Rates:
        """Its true speed."""
        return Rates(self.prefill, self.decode, self.beta)

    @property
    def full_decode(self) -> float:
        """Tokens/s that the whole engine writes at most: with every slot busy, or with one."""
        return self.decode * max(1.0, self.slots * self.rates.share(self.slots))


@dataclass(frozen=True, slots=True)
class Rig:
    """The nodes, the first of which is where clients ask, and how many times faster than real they run."""

    nodes: tuple[NodeSpec, ...]
    fast_forward: float = 1.0

    @property
    def best(self) -> NodeSpec:
        """The node that alone would be done first with much to do."""
        return max(self.nodes, key=lambda node: node.full_decode)

    @property
    def slots(self) -> dict[str, int]:
        """Of each node."""
        return {node.name: node.slots for node in self.nodes}

    def settings(self, policy: str) -> dict[str, str]:
        """A config.toml for each node."""
        return {node.name: self._paced(node, policy) for node in self.nodes}

    def sim_nodes(self, only: str | None = None, pace: float = 1.0) -> list[SimNode]:
        """The same nodes for the simulator, or one of them alone, ``pace`` times as fast."""
        return [
            SimNode.of(
                node.name,
                node.slots,
                Rates(node.prefill * pace, node.decode * pace, node.beta),
                cache_tokens=node.cached_tokens,
            )
            for node in self.nodes
            if only in (None, node.name)
        ]

    def _paced(self, node: NodeSpec, policy: str) -> str:
        paced: Mapping[str, float] = {
            "prefill": node.prefill,
            "decode": node.decode,
            "beta": node.beta,
            "cached_tokens": node.cached_tokens,
            "fast_forward": self.fast_forward,
        }
        return node_settings("paced", node.slots, paced, policy)


def read_node(text: str) -> NodeSpec:
    """``NAME=SLOTS:PREFILL:DECODE[:BETA[:CACHED]]``. Raises PairproxyError for anything else."""
    found = _SPEC.fullmatch(text)
    try:
        numbers = [float(number) for number in found["numbers"].split(":")] if found else []
        slots, prefill, decode, *more = numbers
        is_sound = slots == int(slots) and 1 <= slots <= MOST_SLOTS and min(prefill, decode) > 0
        if not found or not is_sound:
            raise ValueError(text)
        beta = more[0] if more else BETA
        cached = int(more[1]) if len(more) > 1 else CACHED_TOKENS
        return NodeSpec(found["name"], int(slots), prefill, decode, beta, cached)
    except ValueError:
        raise PairproxyError(
            f"--node {text!r} is not NAME=SLOTS:PREFILL:DECODE[:BETA[:CACHED]], for example gpu=4:2000:120 "
            "(4 slots, 2000 tokens/s read, 120 tokens/s written by a request alone; names of a-z, 0-9 and -)."
        ) from None


def unequal(slots: int = 1) -> tuple[NodeSpec, ...]:
    """Laptop, box and graphics card: 1 : 1.5 : 4 (core.experiments' rates)."""
    return _named(("laptop", "box", "gpu"), at_speeds(25.0, 37.5, 100.0, slots=slots))


def equal(count: int, slots: int = 1) -> tuple[NodeSpec, ...]:
    """So many of the same."""
    return _named([f"node-{number + 1}" for number in range(count)], rigs.equal(count, slots))


def agents() -> tuple[NodeSpec, ...]:
    """Two boxes and a server with room for many long prompts: core.experiments' rig of closed loops."""
    made = [
        rigs.box("box-1", 4, 150_000),
        rigs.box("box-2", 4, 150_000),
        rigs.gpu_server("server", 8, 300_000),
    ]
    return _named([node.node for node in made], made)


def published(spark: float = 1.0) -> tuple[NodeSpec, ...]:
    """Laptop, DGX Spark and RTX 5090, one request at a time each: 1 : ``spark`` : 2.86.

    Speeds follow from the published times of five equal sub-agents: 18:00 on the laptop, 6:18 on the 5090
    (216 s and 75.6 s for one of 7,500 tokens). A Spark of 0.82 is what 8:48 for two of them takes.
    """
    return tuple(
        NodeSpec(name, 1, 350.0 * speed, 35.0 * speed)
        for name, speed in (("laptop", 1.0), ("spark", spark), ("rtx-5090", 18.0 / 6.3))
    )


def names(nodes: Sequence[NodeSpec]) -> tuple[NodeId, ...]:
    """Of the nodes, as the simulator writes them."""
    return tuple(NodeId(node.name) for node in nodes)


def _named(called: Sequence[str], nodes: Sequence[SimNode]) -> tuple[NodeSpec, ...]:
    """The simulator's nodes, of one engine each, under these names."""
    specs = []
    for name, node in zip(called, nodes, strict=True):
        (engine,) = node.engines
        (rates,) = engine.rates.values()
        cached = engine.cache_tokens or CACHED_TOKENS
        specs.append(NodeSpec(name, engine.slots, rates.prefill, rates.decode, rates.beta, cached))
    return tuple(specs)

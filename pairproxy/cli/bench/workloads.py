"""What is asked in a bench: the simulator's own workloads, so that both run the same.

Tokens and seconds are of real life; fast-forward shortens them where they are run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from pairproxy.core.models import NodeId
from pairproxy.core.workload import SimRequest
from pairproxy.core.workloads import bursts as of_bursts
from pairproxy.core.workloads.chains import played, shared_prefixes, sub_agent

PUBLISHED_PROMPT, PUBLISHED_OUTPUT = 600, 7500  # tokens; 216 s on the published laptop (rig.published)
PREFIX_TOKENS = 4000  # tools and a system prompt, as coding agents send them
PREFIX_OUTPUT = 100.0  # median tokens of a reply: a step of an agent


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests by name; ``about`` is a sentence for a person."""

    name: str
    about: str
    requests: tuple[SimRequest, ...]

    @property
    def origins(self) -> tuple[NodeId, ...]:
        """Where they arrive."""
        return tuple(dict.fromkeys(request.origin for request in self.requests))


def burst(count: int, origins: Sequence[NodeId], seed: int) -> Workload:
    """All at once, with replies of very different length, in turn at the origins."""
    requests = of_bursts.burst(Random(seed), count, origins)
    about = f"{count} requests at once, replies of {of_bursts.MEDIAN_OUTPUT:.0f} tokens in the median"
    return Workload("burst", about, tuple(requests))


def published(count: int, origins: Sequence[NodeId], seed: int) -> Workload:
    """The sub-agents of the published table: equal tasks at one machine."""
    requests = of_bursts.equal_burst(count, origins[0], PUBLISHED_PROMPT, PUBLISHED_OUTPUT)
    return Workload("published", f"{count} equal tasks of {PUBLISHED_OUTPUT} tokens", tuple(requests))


def chains(count: int, origins: Sequence[NodeId], seed: int) -> Workload:
    """Sub-agents: chains of about eleven steps with a growing prompt, all started at once."""
    random = Random(seed)
    requests = played([sub_agent(random) for _ in range(count)], origins)
    return Workload("chains", f"{count} sub-agents, {len(requests)} steps", tuple(requests))


def one_chain(count: int, origins: Sequence[NodeId], seed: int) -> Workload:
    """A single agent: nothing to share, so nothing may be lost."""
    requests = played([sub_agent(Random(seed))], origins)
    return Workload("one-chain", f"one agent, {len(requests)} steps", tuple(requests))


def prefixes(count: int, origins: Sequence[NodeId], seed: int) -> Workload:
    """Requests at once over a quarter as many shared prefixes."""
    kinds = max(2, count // 4)
    requests = shared_prefixes(
        Random(seed), count, origins, weights=[1.0] * kinds, prefix_tokens=PREFIX_TOKENS, output=PREFIX_OUTPUT
    )
    about = f"{count} requests over {kinds} prefixes of {PREFIX_TOKENS} tokens"
    return Workload("prefixes", about, tuple(requests))


WORKLOADS: dict[str, Callable[[int, Sequence[NodeId], int], Workload]] = {
    "burst": burst,
    "published": published,
    "chains": chains,
    "one-chain": one_chain,
    "prefixes": prefixes,
}
PACES = {"burst": 20.0, "published": 20.0, "chains": 8.0, "one-chain": 8.0, "prefixes": 20.0}
"""Times as fast as real, unless a person says otherwise. Chains move for seconds that are not fast-forwarded
(core.chain_plan.LEAST_GAIN_S): from 20 on they hardly move at all."""
COUNTS = {"burst": 16, "published": 5, "chains": 5, "one-chain": 1, "prefixes": 16}
"""How many requests, or chains, unless a person says otherwise."""

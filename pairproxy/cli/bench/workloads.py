"""What is asked in a bench: requests as the simulator takes them, so that both run the same.

Tokens and seconds are of real life; fast-forward shortens them where they are run. A request is drawn by its
number: the first eight of a burst of fifty are those of a burst of eight.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from pairproxy.core.models import NodeId
from pairproxy.core.workload import SimRequest

BLOCK = 64  # tokens, as core.workload's blocks
MEDIAN_OUTPUT = 300.0  # tokens of a reply, log-normal with sigma 1: chat traffic (core.costs)
LONGEST_OUTPUT = 3000  # tokens; ten medians, one reply in a hundred would be longer
PROMPT = 500  # tokens of a request in a burst: a system prompt and a task
PUBLISHED_OUTPUT = 7500  # tokens; with PUBLISHED_PROMPT 216 s on the published laptop
PUBLISHED_PROMPT = 600


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
    requests = tuple(
        SimRequest(0.0, origins[index % len(origins)], PROMPT, _output(seed, index)) for index in range(count)
    )
    return Workload("burst", f"{count} requests at once, median reply {MEDIAN_OUTPUT:.0f} tokens", requests)


def published(count: int, origins: Sequence[NodeId], seed: int) -> Workload:
    """The five sub-agents of the published table: equal tasks at one machine."""
    request = SimRequest(0.0, origins[0], PUBLISHED_PROMPT, PUBLISHED_OUTPUT)
    return Workload("published", f"{count} equal tasks of {PUBLISHED_OUTPUT} tokens", (request,) * count)


def chains(count: int, origins: Sequence[NodeId], seed: int) -> Workload:
    """Sub-agents: chains of about eleven steps, each prompt the last one, its reply and a tool's result.

    They share a system prompt of 2,000 tokens; a step adds about 500 tokens and answers about 150; a tool
    takes about 2 s (medians of public agent traces, rounded).
    """
    made = [_chain(number, origins[number % len(origins)], seed) for number in range(count)]
    return Workload("chains", f"{count} chains of dependent steps", _joined(made))


def one_chain(count: int, origins: Sequence[NodeId], seed: int) -> Workload:
    """A single agent: nothing to share, so nothing may be lost."""
    return Workload("one-chain", "one chain of dependent steps", _joined([_chain(0, origins[0], seed)]))


def prefixes(count: int, origins: Sequence[NodeId], seed: int) -> Workload:
    """Requests over a quarter as many shared prefixes of 4,000 tokens, in four waves 5 s apart."""
    kinds = max(2, count // 4)
    order = [number % kinds for number in range(count)]
    Random(seed).shuffle(order)
    requests = []
    for index, kind in enumerate(order):
        shared = tuple(1_000_000 * (kind + 1) + number for number in range(4000 // BLOCK))
        output = min(_output(seed, index), 400)
        wave = index * 4 // count
        origin = origins[index % len(origins)]
        requests.append(SimRequest(5.0 * wave, origin, len(shared) * BLOCK + 100, output, blocks=shared))
    return Workload("prefixes", f"{count} requests over {kinds} prefixes of 4,000 tokens", tuple(requests))


WORKLOADS: dict[str, Callable[[int, Sequence[NodeId], int], Workload]] = {
    "burst": burst,
    "published": published,
    "chains": chains,
    "one-chain": one_chain,
    "prefixes": prefixes,
}
COUNTS = {"burst": 16, "published": 5, "chains": 5, "one-chain": 1, "prefixes": 16}
"""How many requests, or chains, unless a person says otherwise."""


def _output(seed: int, index: int) -> int:
    drawn = MEDIAN_OUTPUT * Random(f"{seed}/{index}").lognormvariate(0.0, 1.0)
    return max(8, min(round(drawn), LONGEST_OUTPUT))


def _chain(number: int, origin: NodeId, seed: int) -> list[SimRequest]:
    """The steps, ``after`` counted from the chain's own first."""
    draw = Random(f"{seed}/chain {number}")
    system = tuple(range(1, 2000 // BLOCK + 1))  # the same for all
    own = 10_000_000 * (number + 1)
    prompt, written = 2000, 0
    steps: list[SimRequest] = []
    for index in range(max(3, min(round(draw.gammavariate(3.0, 11 / 3)), 30))):
        prompt += written + round(500 * draw.lognormvariate(0.0, 0.6))
        written = round(150 * draw.lognormvariate(0.0, 0.6))
        blocks = system + tuple(own + block for block in range(len(system), prompt // BLOCK))
        ends = (prompt + written) // BLOCK
        steps.append(
            SimRequest(
                at=0.0,
                origin=origin,
                prompt_tokens=prompt,
                output_tokens=max(written, 8),
                after=index - 1 if index else None,
                think_s=2.0 * draw.lognormvariate(0.0, 0.6) if index else 0.0,
                blocks=blocks,
                reply_blocks=tuple(own + block for block in range(prompt // BLOCK, ends)),
            )
        )
    return steps


def _joined(made: Sequence[Sequence[SimRequest]]) -> tuple[SimRequest, ...]:
    """All chains in one list, with ``after`` counted in it."""
    requests: list[SimRequest] = []
    for chain in made:
        first = len(requests)
        requests += [
            step if step.after is None else replace(step, after=step.after + first) for step in chain
        ]
    return tuple(requests)

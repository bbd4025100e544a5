"""Agents as they really work: each prompt repeats the last one with its reply, after a tool has run.

The generated ones follow the sub-agents of public coding sessions (docs/scheduling.md): eleven steps in the
middle, 8,500 tokens of tools and system prompt that all of a kind share, a few thousand more at each step,
short replies but for the last one, and seconds of tool time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from pairproxy.core.models import BLOCK_TOKENS, NodeId
from pairproxy.core.workload import SimRequest
from pairproxy.core.workloads.bursts import draw_output
from pairproxy.core.workloads.texts import Texts, start_blocks

STEPS = (2, 22)  # of a sub-agent, as seen
MIDDLE_STEPS = 11
COMMON_TOKENS = 8500  # tools and system prompt
GROWTH = (2200.0, 1.0)  # tokens of tool results at each step: median, spread of the logarithm
MOST_GROWTH = 30_000
REPLY, LAST_REPLY = (255.0, 0.4), (2200.0, 0.6)
THINK = (4.0, 0.7)  # seconds of tool time


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a chain. ``shared_tokens``: of the prompt before, that this one begins with.

    None: all of it, and the reply to it.
    """

    prompt_tokens: int
    output_tokens: int
    think_s: float = 0.0  # before it
    shared_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps that follow each other. Chains of one ``start`` have their first ``common_tokens`` in common."""

    steps: tuple[Step, ...]
    start: int = 0
    common_tokens: int = 0
    begins_s: float = 0.0
    name: str = ""  # that the client gives; "": none, the scheduler must see for itself
    brings_tools: bool = True  # as an agent does with each request; a chat does not


class Script:
    """Chains written down as requests for the simulator."""

    def __init__(self, client: str = "agent") -> None:
        self.requests: list[SimRequest] = []
        self._client = client
        self._texts = Texts()
        self._after: dict[int, list[int]] = {}  # the text with which a chain goes on after its last request

    def add(self, chain: Chain, origin: NodeId, after: int | None = None, joins: Sequence[int] = ()) -> int:
        """Write a chain down; returns the index of its last request.

        ``after``: it begins when that request has ended, and with ``joins`` the last of these too; then its
        first prompt goes on from the text of ``after``, as the main agent's does.
        """
        text = self._after[after] if after is not None and joins else []
        text = text or start_blocks(chain.start, chain.common_tokens)
        for number, step in enumerate(chain.steps):
            if step.shared_tokens is not None:
                text = text[: step.shared_tokens // BLOCK_TOKENS]
            text = self._texts.grown(text, step.prompt_tokens)
            blocks = len(text)
            text = self._texts.grown(text, step.prompt_tokens + step.output_tokens)
            self.requests.append(
                SimRequest(
                    at=chain.begins_s,
                    origin=origin,
                    prompt_tokens=step.prompt_tokens,
                    output_tokens=step.output_tokens,
                    client=self._client,
                    after=len(self.requests) - 1 if number else after,
                    joins=() if number else tuple(joins),
                    think_s=step.think_s,
                    blocks=tuple(text[:blocks]),
                    reply_blocks=tuple(text[blocks:]),
                    chain=chain.name,
                    brings_tools=chain.brings_tools,
                )
            )
        last = len(self.requests) - 1
        self._after[last] = text
        return last


def played(chains: Sequence[Chain], origins: Sequence[NodeId], client: str = "agent") -> list[SimRequest]:
    """The chains as requests, each chain from one of the origins in turn."""
    script = Script(client)
    for number, chain in enumerate(chains):
        script.add(chain, origins[number % len(origins)])
    return script.requests


def ends_of(chains: Sequence[Chain]) -> list[int]:
    """The index of each chain's last request in played()."""
    ends, total = [], 0
    for chain in chains:
        total += len(chain.steps)
        ends.append(total - 1)
    return ends


def sub_agent(random: Random, start: int = 1, common_tokens: int = COMMON_TOKENS) -> Chain:
    """One chain like those of the public coding sessions."""
    steps: list[Step] = []
    prompt = common_tokens + random.randint(500, 3500)
    count = round(random.triangular(*STEPS, MIDDLE_STEPS))
    for index in range(count):
        is_last = index == count - 1
        output = draw_output(random, *(LAST_REPLY if is_last else REPLY))
        think_s = random.lognormvariate(math.log(THINK[0]), THINK[1]) if index else 0.0
        steps.append(Step(prompt, output, think_s))
        prompt += output + min(draw_output(random, *GROWTH), MOST_GROWTH)
    return Chain(tuple(steps), start, common_tokens)


def chat(random: Random, begins_s: float, start: int = 1) -> Chain:
    """A short chat: a small system prompt that all share, a few turns, and somebody who reads the replies."""
    steps: list[Step] = []
    prompt = 200 + random.randint(20, 150)
    for index in range(random.randint(3, 7)):
        output = min(draw_output(random, 120.0, 0.6), 500)
        steps.append(Step(prompt, output, random.uniform(3.0, 12.0) if index else 0.0))
        prompt += output + random.randint(20, 150)
    return Chain(tuple(steps), start, 192, begins_s, brings_tools=False)


def fan_out(random: Random, origin: NodeId, sub_agents: int) -> list[SimRequest]:
    """A main agent that thinks, sends out sub-agents, waits for all of them and sums up: a tree."""
    script = Script()
    main = (Step(12_000, 400), Step(12_900, 600, 1.0))
    last = script.add(Chain(main, start=2, common_tokens=10_000), origin)
    ends = [script.add(sub_agent(random), origin, last) for _ in range(sub_agents)]
    summary = Step(main[-1].prompt_tokens + main[-1].output_tokens + 1500 * sub_agents, 1200)
    script.add(Chain((summary,)), origin, last, ends)
    return script.requests


def shared_prefixes(
    random: Random,
    count: int,
    origins: Sequence[NodeId],
    *,
    weights: Sequence[float],
    prefix_tokens: int,
    own_tokens: int = 150,
    output: float = 100.0,
) -> list[SimRequest]:
    """Requests at once that each begin with one of ``len(weights)`` prefixes, drawn by weight."""
    texts, requests = Texts(), []
    for index in range(count):
        start = random.choices(range(len(weights)), weights)[0] + 1
        prompt = prefix_tokens + random.randint(own_tokens // 2, own_tokens * 3 // 2)
        blocks = texts.grown(start_blocks(start, prefix_tokens), prompt)
        tokens = min(draw_output(random, output, 0.5), 2000)
        origin = origins[index % len(origins)]
        requests.append(SimRequest(0.0, origin, prompt, tokens, client=f"user {start}", blocks=tuple(blocks)))
    return requests


def zipf(count: int, exponent: float = 1.0) -> list[float]:
    """Weights of prefixes as popularity goes: the k-th is asked for 1 / k**exponent as often as the first."""
    return [1.0 / rank**exponent for rank in range(1, count + 1)]

"""Public traces as workloads; the text of the files is handed in, line by line. None is part of the project.

agent_sessions   sessions of a coding agent with its sub-agents (kv-cache-tester): chains, blocks of 64 tokens
dynamo           one run of an agent with sub-agents (Dynamo's test data): blocks of 16 tokens
mooncake         arrivals of a chat service (Mooncake, FAST '25): blocks of 512 tokens
azure            arrivals of a coding service (Azure LLM inference 2023): lengths only

Every function raises ValueError, with the number of the line, for a line that is not of its trace.
"""

import csv
import json
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from pairproxy.core.models import BLOCK_TOKENS, NodeId
from pairproxy.core.workload import SimRequest
from pairproxy.core.workloads.chains import Chain, Step
from pairproxy.core.workloads.texts import start_blocks

MOONCAKE_BLOCK, DYNAMO_BLOCK = 512, 16  # tokens
SHORT_STEPS = (4, 25)  # a main agent's session that is like a sub-agent's has so many
MOST_FIRST_PROMPT, MOST_PROMPT, MOST_REPLY = 60_000, 130_000, 6_000  # tokens, of the same
LONGEST_THINK_S = 30.0  # of the same: longer, its person was away
SUB_AGENT_START = 1  # sub-agents of one kind begin with the same tools


def agent_chains(lines: Iterable[str], *, sub_agents_only: bool = True) -> list[Chain]:
    """The chains of the coding sessions in their order.

    With ``sub_agents_only`` False also sessions of a main agent alone that are as short as a sub-agent's may
    be; there a tool time in which its person was away is cut.
    """
    chains = []
    starts: dict[tuple[int, int], int] = {}
    for session in _rows(lines):
        nested = [one for one in session["reqs"] if isinstance(one, dict)]
        told = nested or ([] if sub_agents_only else [session])
        for one in told:
            if len(one["reqs"]) > 1 and (nested or _is_short(one["reqs"])):
                common = int(one["tool"]) + int(one["sys"])
                start = starts.setdefault((int(one["tool"]), int(one["sys"])), SUB_AGENT_START + len(starts))
                longest_s = math.inf if nested else LONGEST_THINK_S
                chains.append(Chain(_steps(one["reqs"], longest_s), start, common))
    return chains


def dynamo_chains(lines: Iterable[str]) -> list[Chain]:
    """The sessions of the run, each a chain of its own."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(lines):
        rows.setdefault(row["session"], []).append(row)
    chains = []
    for session in rows.values():
        first = session[0]
        steps = [Step(int(first["in"]), max(int(first["out"]), 1))]
        for before, row in pairwise(session):
            think_s = max(row["t"] - before["t"] - before["total_ms"] / 1000.0, 0.0)
            same = _common(before["hash_ids"], row["hash_ids"]) * DYNAMO_BLOCK
            shared = None if same >= before["in"] - DYNAMO_BLOCK else same
            steps.append(Step(int(row["in"]), max(int(row["out"]), 1), think_s, shared))
        chains.append(Chain(tuple(steps)))
    return chains


def mooncake(lines: Iterable[str], origins: Sequence[NodeId], limit: int) -> list[SimRequest]:
    """The first ``limit`` requests as they arrived; the prompt's blocks are the trace's."""
    requests: list[SimRequest] = []
    for row in _rows(lines):
        if len(requests) == limit:
            break
        prompt = int(row["input_length"])
        blocks = [block for one in row["hash_ids"] for block in _cut(int(one), MOONCAKE_BLOCK)]
        requests.append(
            SimRequest(
                at=row["timestamp"] / 1000.0,
                origin=origins[len(requests) % len(origins)],
                prompt_tokens=prompt,
                output_tokens=max(int(row["output_length"]), 1),
                blocks=tuple(blocks[: prompt // BLOCK_TOKENS]),
            )
        )
    return requests


def azure(lines: Iterable[str], origins: Sequence[NodeId], limit: int) -> list[SimRequest]:
    """The first ``limit`` requests as they arrived; nothing is known of what they share."""
    requests: list[SimRequest] = []
    first = None
    for number, row in enumerate(csv.DictReader(lines), 2):
        if len(requests) == limit:
            break
        try:
            at = _seconds_of_day(row["TIMESTAMP"])
            prompt, output = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"line {number} is not of the trace: {error}") from error
        first = at if first is None else first
        origin = origins[len(requests) % len(origins)]
        requests.append(SimRequest(at - first, origin, max(prompt, 1), max(output, 1)))
    return requests


def _seconds_of_day(timestamp: str) -> float:
    """Of "2023-11-16 18:17:03.9799600"; the trace ends before midnight."""
    hours, minutes, seconds = timestamp.partition(" ")[2].split(":")
    return int(hours) * 3600.0 + int(minutes) * 60.0 + float(seconds)


def at_rate(requests: Sequence[SimRequest], per_second: float) -> float:
    """By what the arrival times must be multiplied so that they come at a mean rate."""
    lasted = requests[-1].at - requests[0].at
    return len(requests) / per_second / lasted if lasted > 0.0 else 1.0


def _rows(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number} is not of the trace: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"line {number} is not of the trace: it is no object")
        yield row


def _is_short(rows: Sequence[Sequence[float]]) -> bool:
    """Whether a main agent's session is like one of a sub-agent: its steps, prompts and replies."""
    return (
        SHORT_STEPS[0] <= len(rows) <= SHORT_STEPS[1]
        and rows[0][1] <= MOST_FIRST_PROMPT
        and max(row[1] for row in rows) <= MOST_PROMPT
        and max(row[2] for row in rows) <= MOST_REPLY
    )


def _steps(rows: Sequence[Sequence[float]], longest_think_s: float) -> tuple[Step, ...]:
    """Of [t, prompt, reply, blocks shared with the prompt before, seconds of the service, of the tool]."""
    steps, before = list[Step](), 0
    for row in rows:
        shared = int(row[3]) * BLOCK_TOKENS
        is_whole = shared >= before - 2 * BLOCK_TOKENS  # what is cut off is less than a block at each end
        think_s = min(float(row[5]), longest_think_s) if steps else 0.0
        kept = None if is_whole or not steps else shared
        steps.append(Step(int(row[1]), max(int(row[2]), 1), think_s, kept))
        before = int(row[1])
    return tuple(steps)


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many blocks two prompts have in common from the first on."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


def _cut(name: int, tokens: int) -> list[int]:
    """A trace's block as blocks of ours."""
    return start_blocks(name + 1, tokens)

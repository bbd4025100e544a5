"""Asks what a workload holds, as clients do: streamed chats, each step of a chain after the one before."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any

import aiohttp
import msgspec

from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import BLOCK_TOKENS, NodeId
from pairproxy.core.workload import SimRequest
from pairproxy.proxy import headers

CHARACTERS_PER_TOKEN = 4  # what the paced engine and the scheduler reckon with
BLOCK_CHARACTERS = BLOCK_TOKENS * CHARACTERS_PER_TOKEN
OPENING_S = 10.0  # to open a connection on this machine
SILENCE_S = 900.0  # as long as any client waits for a reply's next byte
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "run",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        },
    },
)
"""What an agent brings with each request: by it daemons and simulator know the steps of a chain."""
_WORDS = (
    "able", "about", "above", "across", "after", "again", "along", "around", "away", "back", "before",
    "between", "both", "bring", "build", "carry", "clear", "close", "cover", "early", "earth", "every",
    "final", "first", "follow", "force", "front", "group", "hand", "hold", "house", "large", "later", "learn",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """How a workload is sent: to which ports, as which run, how fast.

    ``nonce`` makes its prompts new to every cache. ``is_limited``: the length of a reply is a limit that the
    client sends (real models), else a wish in the prompt that the scheduler cannot know (paced engines).
    ``hands_over``: no cluster, but what routers of this field do: each request goes at once to the node that
    has the fewest, ties in turn, and waits there. A request that may not be sent yet waits at the client.
    """

    ports: Mapping[NodeId, int]
    model: str
    run: str
    nonce: str
    fast_forward: float = 1.0
    is_local_only: bool = False
    is_limited: bool = False
    hands_over: bool = False
    at_once: int | None = None  # requests that are sent and not answered; None: as many as there are

    @property
    def headers(self) -> dict[str, str]:
        """What is sent with every request."""
        is_local = self.is_local_only or self.hands_over
        return {headers.RUN: self.run} | ({headers.LOCAL: "true"} if is_local else {})


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one request; seconds since the leg began, in the workload's own time."""

    asked_s: float
    first_s: float
    ended_s: float
    node: str
    attempts: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    text: str

    @property
    def ttft_s(self) -> float:
        """Until the first byte."""
        return self.first_s - self.asked_s


async def ask_all(requests: Sequence[SimRequest], line: Line) -> list[Reply]:
    """Send a workload and wait for all of it. Raises PairproxyError, in a group, if a reply is not whole."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=OPENING_S, sock_read=SILENCE_S)
    connector = aiohttp.TCPConnector(limit=0)  # everything at once is what is measured
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        asker = _Asker(requests, line, session)
        async with asyncio.TaskGroup() as group:
            for index in range(len(requests)):
                group.create_task(asker.ask(index), name=f"ask {index}")
    return [reply for reply, _ in (asker.done[index].result() for index in range(len(requests)))]


class _Asker:
    def __init__(self, requests: Sequence[SimRequest], line: Line, session: aiohttp.ClientSession) -> None:
        self._requests, self._line, self._session = requests, line, session
        loop = asyncio.get_running_loop()
        self.done: list[asyncio.Future[tuple[Reply, list[dict[str, str]]]]] = [
            loop.create_future() for _ in requests
        ]
        self._began_at = time.monotonic()
        self._in_flight = dict.fromkeys(line.ports, 0)
        self._turns = asyncio.Semaphore(line.at_once or len(requests))

    def _now(self) -> float:
        return (time.monotonic() - self._began_at) * self._line.fast_forward

    async def ask(self, index: int) -> None:
        wanted = self._requests[index]
        ended = [(await self.done[before])[0].ended_s for before in wanted.waits_for]
        due_s = max([wanted.at, *(one + wanted.think_s for one in ended)])
        messages: list[dict[str, str]] = []
        if wanted.after is not None and _goes_on(self._requests[wanted.after], wanted):
            before, messages = self.done[wanted.after].result()
            messages = [*messages, {"role": "assistant", "content": before.text}]
        messages = [*messages, *_new_messages(wanted, index, self._line, messages)]
        await asyncio.sleep(max(due_s - self._now(), 0.0) / self._line.fast_forward)
        wished_s = self._now()
        async with self._turns:
            node = self._fewest() if self._line.hands_over else wanted.origin
            self._in_flight[node] += 1
            reply = await self._send(self._line.ports[node], wanted, messages)
            self._in_flight[node] -= 1
        reply = replace(reply, asked_s=min(reply.asked_s, wished_s))
        self.done[index].set_result((reply, messages))

    def _fewest(self) -> NodeId:
        """The node with the fewest requests; the first of equals goes to the end of the order."""
        node = min(self._in_flight, key=lambda one: self._in_flight[one])
        self._in_flight[node] = self._in_flight.pop(node)
        return node

    async def _send(self, port: int, wanted: SimRequest, messages: list[dict[str, str]]) -> Reply:
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        body = {
            "model": self._line.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            **({"max_tokens": wanted.output_tokens} if self._line.is_limited else {}),
            **({"tools": TOOLS} if wanted.brings_tools else {}),
        }
        data, fields = msgspec.json.encode(body), {"Content-Type": "application/json", **self._line.headers}
        asked_s, first_s, parts = self._now(), 0.0, []
        try:
            async with self._session.post(url, data=data, headers=fields) as response:
                async for part in response.content.iter_any():
                    first_s = first_s or self._now()
                    parts.append(part)
        except (aiohttp.ClientError, TimeoutError):
            raise PairproxyError("A request got no whole reply: the connection ended.") from None
        if response.status != 200:
            raise PairproxyError(f"A request was answered with HTTP {response.status}.")
        return _reply(b"".join(parts), response.headers, (asked_s, first_s, self._now()))


def _reply(body: bytes, fields: Mapping[str, str], times: tuple[float, float, float]) -> Reply:
    """Take a stream apart. Raises PairproxyError if it did not come to its end."""
    lines = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]
    if not lines or lines[-1].strip() != b"[DONE]":
        raise PairproxyError("A reply broke off before its end.")
    text: list[str] = []
    usage: dict[str, Any] = {}
    timings: dict[str, Any] = {}
    for line in lines[:-1]:
        record = msgspec.json.decode(line)
        choices = record.get("choices") or ()
        text += [choice.get("delta", {}).get("content") or "" for choice in choices]
        usage, timings = record.get("usage") or usage, record.get("timings") or timings
    details = usage.get("prompt_tokens_details") or {}
    return Reply(
        *times,
        node=fields.get(headers.NODE, ""),
        attempts=int(fields.get(headers.ATTEMPTS, 1)),
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        cached_tokens=int(timings.get("cache_n", details.get("cached_tokens") or 0)),
        output_tokens=int(usage.get("completion_tokens") or timings.get("predicted_n") or 0),
        text="".join(text),
    )


def _goes_on(before: SimRequest, wanted: SimRequest) -> bool:
    """Whether a prompt begins with all of another one and its reply."""
    known = (*before.blocks, *before.reply_blocks)
    return bool(known) and wanted.blocks[: len(known)] == known


def _new_messages(
    wanted: SimRequest, index: int, line: Line, before: Sequence[Mapping[str, str]]
) -> list[dict[str, str]]:
    """What a request adds to its conversation: the first one the system prompt that its blocks stand for."""
    wish = "" if line.is_limited else f" Answer in {wanted.output_tokens} tokens."
    whole = wanted.prompt_tokens * CHARACTERS_PER_TOKEN
    whole -= len(msgspec.json.encode(TOOLS)) if wanted.brings_tools else 0
    if before:
        room = whole - sum(len(one["content"]) for one in before)
        return [{"role": "user", "content": _text(f"{line.nonce}/{index}", room - len(wish)) + wish}]
    shared = "".join(_text(f"{line.nonce}/block {block}", BLOCK_CHARACTERS) for block in wanted.blocks)
    room = whole - len(shared)
    own = _text(f"{line.nonce}/{index}", room - len(wish)) + wish
    return [*([{"role": "system", "content": shared}] if shared else []), {"role": "user", "content": own}]


@lru_cache(maxsize=4096)  # blocks of 256 characters; the shared prefixes of a workload
def _text(name: str, characters: int) -> str:
    """So many characters of words, the same for the same name; at least one word."""
    draw = Random(name)
    words = draw.choices(_WORDS, k=max(characters // 4, 1))
    return " ".join(words)[: max(characters, 8)]

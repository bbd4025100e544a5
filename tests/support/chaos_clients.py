"""Clients for a cluster in which things break: each asks once, and says exactly how it ended."""

import asyncio
import enum
import json
import time
from dataclasses import dataclass
from random import Random
from typing import Any

import aiohttp

MODEL = "paced:1b"
ANSWER_S = 90.0  # for one request, whatever breaks meanwhile; what takes longer hangs
SLOW_READ_S = 0.05  # between two chunks of a client that reads slowly


class End(enum.StrEnum):
    """How a request ended for its client."""

    DONE = "done"  # all of it, with the end that its wire format has
    TRUNCATED = "truncated"  # it began, and did not end as it should
    LEFT = "left"  # the client hung up
    ORIGIN_DIED = "origin died"  # the node that the client asked was killed meanwhile
    REFUSED = "refused"  # an HTTP error
    LOST = "lost"  # the connection broke before a first byte, or nothing ever came


@dataclass
class Asked:
    """One request and its end. Times are of time.monotonic()."""

    origin: str
    path: str
    is_streaming: bool
    tokens: int  # of the reply it asked for
    life: int  # of the origin
    asked_at: float
    id: str = ""  # as its headers say; "": it had none
    node: str = ""  # that answered, as its headers say
    end: End = End.LOST
    ended_at: float = 0.0
    said: str = ""  # of the error


PATHS = (
    ("/api/chat", True), ("/api/chat", False), ("/api/generate", True), ("/v1/chat/completions", True),
    ("/v1/chat/completions", False), ("/v1/completions", True),
)  # fmt: skip


def _body(path: str, is_streaming: bool, words: str, tokens: int) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": MODEL, "stream": is_streaming}
    if "chat" in path:
        asked["messages"] = [{"role": "user", "content": words}]
    else:
        asked["prompt"] = words
    return asked | ({"options": {"num_predict": tokens}} if "/api/" in path else {"max_tokens": tokens})


def _is_whole(path: str, is_streaming: bool, body: bytes, tokens: int) -> bool:
    """Whether a reply has the end of its wire format, once, and as many tokens as it was asked for."""
    if not path.startswith("/api/"):
        if is_streaming:
            return body.rstrip().endswith(b"data: [DONE]") and body.count(b"[DONE]") == 1
        return bool(json.loads(body)["usage"]["completion_tokens"] == tokens)
    records = [json.loads(line) for line in body.splitlines()]
    ends = [record for record in records if record.get("done")]
    return ends == records[-1:] and ends[0]["eval_count"] == tokens


async def ask(
    session: aiohttp.ClientSession, port: int, origin: str, life: int, run: str, random: Random
) -> Asked:
    """Ask one of the paths for a text of some length; some clients leave, some read slowly."""
    path, is_streaming = random.choice(PATHS)
    tokens = random.choice([5, 20, 20, 60, 60, 150])
    leaves_s = random.uniform(0.01, 0.8) if random.random() < 0.08 else None
    is_slow = random.random() < 0.08
    words = f"task {random.random()} " * random.choice([1, 20, 200])
    asked = Asked(origin, path, is_streaming, tokens, life, time.monotonic())
    body = _body(path, is_streaming, words, tokens)
    try:
        async with asyncio.timeout(leaves_s if leaves_s is not None else ANSWER_S):
            await _read(session, f"http://127.0.0.1:{port}{path}", body, run, is_slow, asked)
    except TimeoutError:
        asked.end = End.LEFT if leaves_s is not None else End.LOST
        asked.said = "nothing came for too long"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        asked.end = End.TRUNCATED if asked.id else End.LOST
        asked.said = type(error).__name__
    asked.ended_at = time.monotonic()
    return asked


async def _read(
    session: aiohttp.ClientSession, url: str, body: dict[str, Any], run: str, is_slow: bool, asked: Asked
) -> None:
    async with session.post(url, json=body, headers={"X-Pairproxy-Run": run}) as reply:
        if reply.status != 200:
            asked.end, asked.said = End.REFUSED, f"{reply.status} {(await reply.text())[:200]}"
            return
        asked.id = reply.headers["X-Pairproxy-Request"]
        asked.node = reply.headers["X-Pairproxy-Node"]
        got = b""
        async for chunk in reply.content.iter_any():
            got += chunk
            if is_slow:
                await asyncio.sleep(SLOW_READ_S)
        is_whole = bool(got) and _is_whole(asked.path, asked.is_streaming, got, asked.tokens)
        asked.end = End.DONE if is_whole else End.TRUNCATED

"""How many requests an engine really computes at once: short ones are sent together, straight to it.

Those whose first token came before any of them had ended were computed together. An engine that takes one
after another says nothing of the second before the first is done.
"""

import asyncio
import json
import time
from typing import NamedTuple

from pairproxy.api.diagnosis import Measured
from pairproxy.config import Limits
from pairproxy.core.errors import BrokenReply, UpstreamError
from pairproxy.doctor.facts import Facts, SeenEngine, Unknown
from pairproxy.upstreams import Outgoing, Upstream

BEYOND = 2  # requests more than the slots that it is given: to see whether it would take more
MOST_ASKED = 16
TOKENS = 48  # of each: long enough that the others' first ones come meanwhile
TOGETHER_S = 60.0  # for all of them; forty tokens on a slow machine take ten
PROMPT = "Count from one to one hundred in words."
LINE_BYTES = 1024 * 1024


class Seen(NamedTuple):
    """One request: seconds from the start to its first token, and to its end."""

    first_s: float
    end_s: float


class _At:
    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)

    def address(self, _path: str) -> tuple[str, int]:
        return self._address


def measured(facts: Facts) -> tuple[Measured, ...] | Unknown:
    """Each engine that answers and has a loaded model; Unknown if none has: nothing is loaded for this."""
    own = facts.own
    if own is None or isinstance(facts.engines, Unknown):
        return Unknown("no daemon runs here")
    if any(engine.in_flight for engine in own.engines):
        return Unknown("requests run on this machine: measure when it is idle")
    models = {
        engine.engine: next((one.model for one in engine.replicas if one.is_loaded), None)
        for engine in own.engines
    }
    wanted = [(one, model) for one in facts.engines if one.is_up and (model := models.get(one.id))]
    if not wanted:
        return Unknown("no engine has a model loaded: send it a request, then measure again")
    found = [asyncio.run(_measure(engine, model)) for engine, model in wanted]
    told = tuple(one for one in found if one is not None)
    return told or Unknown("the engine did not answer all requests of the measurement")


async def _measure(engine: SeenEngine, model: str) -> Measured | None:
    slots = engine.slots or 1
    count = min(slots + BEYOND, MOST_ASKED)
    upstream = Upstream(_At(engine.url_host, engine.port), limits=Limits())
    began_at = time.monotonic()
    try:
        async with asyncio.timeout(TOGETHER_S):
            seen = await asyncio.gather(*(_ask(upstream, model, began_at) for _ in range(count)))
    except (UpstreamError, TimeoutError):
        return None
    finally:
        await upstream.close()
    return Measured(engine.id, slots, count, at_once(seen))


def at_once(seen: list[Seen]) -> int:
    """How many had begun before the first of them ended."""
    first_end_s = min(one.end_s for one in seen)
    return max(1, sum(one.first_s < first_end_s for one in seen))


async def _ask(upstream: Upstream, model: str, began_at: float) -> Seen:
    body = json.dumps(
        {
            "model": model,
            "messages": [{"role": "user", "content": PROMPT}],
            "stream": True,
            "max_tokens": TOKENS,
            "temperature": 0,
        }
    ).encode()
    fields = (
        (b"Host", b"localhost"),
        (b"Content-Type", b"application/json"),
        (b"Content-Length", str(len(body)).encode()),
    )
    reply = await upstream.send(Outgoing("POST", "/v1/chat/completions", fields, body))
    first_s: float | None = None
    try:
        if reply.status != 200:  # what it refuses it did not compute
            raise BrokenReply(f"it answered {reply.status}")
        async for _ in reply.lines(LINE_BYTES):
            if first_s is None:
                first_s = time.monotonic() - began_at
    finally:
        reply.abandon()
    end_s = time.monotonic() - began_at
    return Seen(end_s if first_s is None else first_s, end_s)

"""A few small requests to an engine, before it is offered: its speed, measured instead of guessed.

A speed that is only a prior costs a first burst up to 1.65 times its best makespan on unequal nodes
(scheduling study); this costs one or two seconds, once per machine and version, while nobody waits. First one
request alone; then, on an engine of several slots, as many as it has: how much they slow each other.
"""

import asyncio
from typing import Any

import msgspec

from pairproxy.core.dialects.meter import Meter
from pairproxy.core.errors import UpstreamError
from pairproxy.core.models import Dialect, ModelName, Usage
from pairproxy.upstreams import Upstream

KINDS = ("embedded", "paced")
"""Engines that hold one model, loaded; asking another kind could load a model that nobody wanted."""
PATH = "/v1/chat/completions"
COMPANY_PATH = "/v1/completions"  # without a chat's template: a prompt of one token, so all write at once
OUTPUT_TOKENS = 24
COMPANY_TOKENS = 16  # for each of the company: how they slow each other is the same from the first token on
MOST_COMPANY = 8  # requests at once: a bend shows as well as with more
COMPANY_S = 1.5  # seconds, on an engine that works on one request after the other; half of it on most
REPLY_BYTES = 64 * 1024  # a few words and how long they took
TIMEOUT_S = 30.0
_WORDS = "river stone cloud paper candle window garden silver morning engine market letter " * 8


async def calibrate(upstream: Upstream, model: ModelName) -> Usage | None:
    """Tokens and seconds of one request running alone; None if the engine did not answer as it should."""
    prompt = {"messages": [{"role": "user", "content": _WORDS}]}
    usage = await _asked(upstream, PATH, model, OUTPUT_TOKENS, prompt)
    return usage if usage is not None and usage.prefill_s else None


async def calibrate_company(
    upstream: Upstream, model: ModelName, slots: int, alone: Usage
) -> tuple[Usage, int] | None:
    """The summed tokens and seconds of as many requests at once as were asked, and how many those were.

    ``alone`` is what calibrate() found: it bounds how many fit into COMPANY_S. None if that is only one, or
    one of them was not answered as it should.
    """
    rate = (alone.output_tokens or 0) / (alone.decode_s or COMPANY_S)
    company = min(slots, MOST_COMPANY, int(COMPANY_S * rate / COMPANY_TOKENS))
    if company < 2:
        return None
    ask = (
        _asked(upstream, COMPANY_PATH, model, COMPANY_TOKENS, {"prompt": word})
        for word in _WORDS.split()[:company]
    )
    found = [usage for usage in await asyncio.gather(*ask) if usage is not None]
    if len(found) < company:
        return None
    tokens = sum(usage.output_tokens or 0 for usage in found)
    return Usage(output_tokens=tokens, decode_s=sum(usage.decode_s or 0.0 for usage in found)), company


async def _asked(
    upstream: Upstream, path: str, model: ModelName, output_tokens: int, prompt: dict[str, Any]
) -> Usage | None:
    """What one request of a fixed length, past every cache, said of itself."""
    asked = {"model": model, "max_tokens": output_tokens, "temperature": 0}
    body = msgspec.json.encode({**asked, **prompt, "cache_prompt": False, "ignore_eos": True})
    try:
        status, reply = await upstream.fetch(
            "POST",
            path,
            body=body,
            headers=((b"Content-Type", b"application/json"),),
            limit_bytes=REPLY_BYTES,
            timeout_s=TIMEOUT_S,
        )
    except (UpstreamError, TimeoutError):
        return None
    meter = Meter(Dialect.OPENAI, is_streaming=False, status=status)
    meter.feed(reply)
    usage = meter.usage()
    return usage if status == 200 and usage.output_tokens and usage.decode_s else None

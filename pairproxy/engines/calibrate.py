"""A few small requests to an engine, before it is offered: its speed, measured instead of guessed.

A speed that is only a prior costs a first burst up to 1.65 times its best makespan on unequal nodes
(scheduling study); this costs one or two seconds, once per machine and version, while nobody waits. First one
request alone; then, on an engine of several slots, as many as it has: how much they slow each other.
"""

import asyncio
from typing import Any

import msgspec

from pairproxy.core.dialects.meter import Meter
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import UpstreamError
from pairproxy.core.models import Dialect, ModelName, Usage
from pairproxy.upstreams import Upstream

KINDS = ("embedded", "paced")
"""Engines of our own: one model, loaded, and nobody else uses them."""
FOUND_KIND = "llamacpp"
"""The only found engine that is measured, and only while nobody has used it (is_fresh). Asking Ollama or LM
Studio could load a model that nobody wanted."""
FOUND_S = 5.0  # seconds for all of its measurement: a large model on a slow machine is learned by its replies
SLOTS_PATH = "/slots"
SLOTS_BYTES = 1024 * 1024  # a slot's sampling parameters are 2 kB
SLOTS_S = 1.0  # seconds for the answer; it needs milliseconds
PATH = "/v1/chat/completions"
COMPANY_PATH = "/v1/completions"  # without a chat's template: a prompt of one token, so all write at once
OUTPUT_TOKENS = 24
COMPANY_TOKENS = 16  # for each of the company: how they slow each other is the same from the first token on
MOST_COMPANY = 8  # requests at once: a bend shows as well as with more
COMPANY_S = 1.5  # seconds, on an engine that works on one request after the other; half of it on most
REPLY_BYTES = 64 * 1024  # a few words and how long they took
TIMEOUT_S = 30.0
_WORDS = "river stone cloud paper candle window garden silver morning engine market letter " * 8


def may_be_measured(report: EngineReport) -> bool:
    """Whether no model would have to be loaded for it, and whether it could matter to nobody."""
    if report.kind == FOUND_KIND:
        return [is_loaded for _, is_loaded in report.replicas] == [True]
    return report.kind in KINDS and bool(report.replicas)


async def is_fresh(upstream: Upstream) -> bool:
    """Whether no slot of a llama-server was ever used: there is no cache to lose and nobody to disturb."""
    try:
        status, reply = await upstream.fetch("GET", SLOTS_PATH, limit_bytes=SLOTS_BYTES, timeout_s=SLOTS_S)
        slots = msgspec.json.decode(reply, type=list[_Slot])
    except (UpstreamError, TimeoutError, msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return status == 200 and bool(slots) and all(one.is_fresh for one in slots)


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


class _Slot(msgspec.Struct, frozen=True):
    """What /slots says of one; older servers give a slot that had no task yet the task -1."""

    is_processing: bool
    id_task: int = -1

    @property
    def is_fresh(self) -> bool:
        return not self.is_processing and self.id_task < 0


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

"""One small request to an engine of our own, before it is offered: its speed, measured instead of guessed.

A speed that is only a prior costs a first burst up to 1.65 times its best makespan on unequal nodes
(scheduling study); this costs about a second, once per start, while nobody waits.
"""

import msgspec

from pairproxy.core.dialects.meter import Meter
from pairproxy.core.errors import UpstreamError
from pairproxy.core.models import Dialect, ModelName, Usage
from pairproxy.upstreams import Upstream

KINDS = ("embedded", "paced")
"""Engines that hold one model, loaded; asking another kind could load a model that nobody wanted."""
PATH = "/v1/chat/completions"
OUTPUT_TOKENS = 24
REPLY_BYTES = 64 * 1024  # a few words and how long they took
TIMEOUT_S = 30.0
_WORDS = "river stone cloud paper candle window garden silver morning engine market letter " * 8


async def calibrate(upstream: Upstream, model: ModelName) -> Usage | None:
    """Tokens and seconds of one request running alone; None if the engine did not answer as it should."""
    body = msgspec.json.encode(
        {
            "model": model,
            "messages": [{"role": "user", "content": _WORDS}],
            "max_tokens": OUTPUT_TOKENS,
            "temperature": 0,
            "cache_prompt": False,
            "ignore_eos": True,
        }
    )
    try:
        status, reply = await upstream.fetch(
            "POST",
            PATH,
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
    return usage if status == 200 and usage.prefill_s and usage.decode_s else None

"""One small question to an engine on this machine, answered with JSON. Nothing in an answer is believed."""

import json
from typing import Any

from pairproxy.config import Limits
from pairproxy.core.errors import BrokenReply
from pairproxy.upstreams import Upstream

REPLY_BYTES = 1024 * 1024  # 500 models with all their details are 300 kB
TIMEOUT_S = 3.0  # for one answer; a healthy engine needs milliseconds, also while it computes
OK = 200


class _At:
    """Where the question goes."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)

    def address(self, _path: str) -> tuple[str, int]:
        return self._address


async def ask_bytes(host: str, port: int, path: str, question: bytes | None = None) -> bytes:
    """GET ``path`` (POST ``question`` to it) and return the body.

    Raises UpstreamError if there is no 200 within TIMEOUT_S.

    On a connection of its own: engines close idle ones after 5 s or so, and questions are rare.
    """
    upstream = Upstream(_At(host, port), limits=Limits())
    try:
        status, body = await upstream.fetch(
            "GET" if question is None else "POST",
            path,
            body=question,
            headers=() if question is None else ((b"Content-Type", b"application/json"),),
            limit_bytes=REPLY_BYTES,
            timeout_s=TIMEOUT_S,
        )
    finally:
        await upstream.close()
    if status != OK:
        raise BrokenReply(f"The engine on port {port} answered {path} with {status}: see what runs there.")
    return body


async def ask(host: str, port: int, path: str) -> Any:
    """GET ``path`` and return the parsed JSON. Raises UpstreamError if there is none within TIMEOUT_S."""
    return parsed(await ask_bytes(host, port, path))


def parsed(body: bytes) -> Any:
    """The JSON of an answer. Raises BrokenReply if it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise BrokenReply("The engine answered with no JSON. See what runs there.") from None

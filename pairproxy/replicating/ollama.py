"""What this node's own Ollama is asked and told when a model is copied. Little is believed."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from pairproxy.core.errors import BrokenReply, CopyFailed, UpstreamError
from pairproxy.core.replicas import canonical_name
from pairproxy.upstreams import Outgoing, Upstream

ANSWER_BYTES = 1024 * 1024  # of a listing; five hundred models are 300 kB
ANSWER_S = 10.0  # for one answer; it is busy with a copy
LINE_BYTES = 64 * 1024  # of its progress; a line has 150
ERROR_CHARACTERS = 300  # of its own words; they name a file or an address
JSON = ((b"Content-Type", b"application/json"),)


class Listed(msgspec.Struct, frozen=True):
    """A model as it lists it: its spelling, and the digest (64 digits)."""

    name: str
    digest: str = ""


class PullLine(msgspec.Struct, frozen=True):
    """A line of its progress. ``total``, ``completed``: bytes of the blob ``digest``."""

    status: str = ""
    digest: str = ""
    total: int = 0
    completed: int = 0
    error: str = ""


class _Tags(msgspec.Struct, frozen=True):
    models: list[Listed] | None = None


class Ollama:
    """The Ollama of this node."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def models(self) -> dict[str, Listed]:
        """All models, by their canonical names. Raises UpstreamError."""
        status, body = await self._ask("GET", "/api/tags")
        if status != 200:  # none listed would look like every name being free
            raise BrokenReply(
                f"Ollama on this machine answered {status} to a question for its models. See its log."
            )
        try:
            listed = msgspec.json.decode(body, type=_Tags).models or []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BrokenReply("Ollama on this machine gives no list of its models. See its log.") from None
        return {canonical_name(one.name): one for one in listed}

    async def modelfile(self, name: str) -> str:
        """As it shows it; empty where it does not."""
        try:
            status, body = await self._ask("POST", "/api/show", {"model": name})
            shown = json.loads(body).get("modelfile") if status == 200 else ""
        except (UpstreamError, ValueError, AttributeError, RecursionError):
            return ""
        return shown if isinstance(shown, str) else ""

    async def has_blob(self, digest: str) -> bool:
        """Whether it has the whole of it. Raises UpstreamError."""
        status, _ = await self._ask("HEAD", f"/api/blobs/{digest}")
        return status == 200

    async def copy(self, name: str, to: str) -> None:
        """Give a model a second name. Raises CopyFailed, UpstreamError."""
        status, body = await self._ask("POST", "/api/copy", {"source": name, "destination": to})
        if status != 200:
            raise said(_error_in(body))

    async def delete(self, name: str) -> None:
        """Take a name away; blobs that no other name has go with it. Raises UpstreamError."""
        await self._ask("DELETE", "/api/delete", {"model": name, "name": name})

    async def pull(self, name: str) -> AsyncGenerator[PullLine, None]:
        """Let it fetch a model from a registry without TLS; lines until it is there.

        Raises CopyFailed, UpstreamError.
        """
        content = json.dumps({"model": name, "name": name, "insecure": True, "stream": True}).encode()
        # Without the length it would be sent in chunks; Host is what loopback is called.
        fields = ((b"Host", b"127.0.0.1"), *JSON, (b"Content-Length", str(len(content)).encode()))
        reply = await self._upstream.send(Outgoing("POST", "/api/pull", fields, content))
        if reply.status != 200:
            raise said(_error_in(await reply.read(ANSWER_BYTES)))
        async with aclosing(reply.lines(LINE_BYTES)) as lines:
            async for line in lines:
                try:
                    told = msgspec.json.decode(line, type=PullLine)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue
                if told.error:
                    raise said(told.error)
                yield told
                if told.status == "success":
                    return
        raise CopyFailed(
            "Ollama on this machine broke off. See its log, and run this again: it goes on from there."
        )

    async def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        content = None if body is None else json.dumps(body).encode()
        fields = () if body is None else JSON
        return await self._upstream.fetch(
            method, path, body=content, headers=fields, limit_bytes=ANSWER_BYTES, timeout_s=ANSWER_S
        )


def said(words: str) -> CopyFailed:
    """What Ollama's own words mean for a person."""
    text = "".join(one for one in words if one.isprintable())[:ERROR_CHARACTERS].strip()
    if "no space left" in text or "not enough space" in text:
        return CopyFailed("The disk of Ollama on this machine is full. Free some space and run this again.")
    if "digest mismatch" in text:
        return CopyFailed(
            "What came is not what the other machine's list says: the hash differs. None was installed."
        )
    if "connection refused" in text or "Empty reply" in text:
        return CopyFailed(
            "Ollama on this machine cannot reach pairproxy on 127.0.0.1. In a container it never can: there,"
            " `ollama pull` the model."
        )
    return CopyFailed(f"Ollama on this machine does not take the model: {text or 'it does not say why'}")


def _error_in(body: bytes) -> str:
    try:
        found = json.loads(body).get("error")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""

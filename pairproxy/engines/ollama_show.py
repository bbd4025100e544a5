"""What /api/show tells of an Ollama's models, asked once for each content, a few at each probe.

Nodes of different age hash the same pulled model differently (before 0.19 a pull wrote the manifest anew), so
the digest alone would part them. Weights, template, parameters, system prompt, quantization and capabilities
together say the same thing. To show a model loads nothing.
"""

import asyncio
import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pairproxy.core.errors import BrokenReply, UpstreamError
from pairproxy.engines.ask import ask_bytes, parsed

SHOWN_LIMIT = 1024  # contents remembered: twice the models that are listed of one engine
SHOWS_PER_PROBE = 4  # a hundred models are known within a minute, and no probe takes long
BUDGET_S = 1.0  # of one probe for all of them: an engine that swaps must not be taken for lost
RETRY_PROBES = 30  # a minute: how long a model that could not be shown is left alone
CAPABILITIES_LIMIT = 32  # Ollama has eight

_BLOB = re.compile(r"^(FROM|ADAPTER)\s+\S*?sha256[-:]([0-9a-f]{64})\s*$", re.MULTILINE | re.IGNORECASE)


class Content(NamedTuple):
    """A model's name as its engine spells it, and its digest."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Shown:
    """``facts`` is Replica.facts; ``is_remote``: the vendor's cloud runs it."""

    facts: str = ""
    capabilities: frozenset[str] | None = None
    is_remote: bool = False


class OllamaShow:
    """Asks, and remembers what was said of each content."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._shown: OrderedDict[Content, Shown] = OrderedDict()
        self._failed: dict[Content, int] = {}  # -> the probe from which on it is asked again
        self._probes = 0

    async def learn(self, contents: Iterable[Content]) -> None:
        """Ask for some of those that are not known yet, the first of them first. Raises nothing."""
        self._probes += 1
        self._failed = {one: again for one, again in self._failed.items() if again > self._probes}
        unknown = [one for one in contents if one not in self._shown and one not in self._failed]
        try:
            async with asyncio.timeout(BUDGET_S):
                for content in unknown[:SHOWS_PER_PROBE]:
                    await self._ask(content)
        except (TimeoutError, UpstreamError):
            return  # the next probe goes on

    def of(self, content: Content) -> Shown:
        """What is known of a content; empty if nothing is."""
        return self._shown.get(content, Shown())

    async def _ask(self, content: Content) -> None:
        question = json.dumps({"model": content.name}).encode()
        try:
            reply = parsed(await ask_bytes(self._host, self._port, "/api/show", question))
        except BrokenReply:
            self._failed[content] = self._probes + RETRY_PROBES
            return
        self._shown[content] = read_shown(reply)
        if len(self._shown) > SHOWN_LIMIT:
            self._shown.popitem(last=False)


def read_shown(reply: Any) -> Shown:
    """What a reply of /api/show says. Without the hash of its weights no model has ``facts``."""
    if not isinstance(reply, dict):
        return Shown()
    capabilities = read_capabilities(reply.get("capabilities"))
    is_remote = bool(reply.get("remote_host") or reply.get("remote_model"))
    blobs = [(kind.upper(), digest.lower()) for kind, digest in _BLOB.findall(_text(reply, "modelfile"))]
    if not any(kind == "FROM" for kind, _ in blobs):
        return Shown("", capabilities, is_remote)
    details = reply.get("details")
    parts = (
        blobs,
        _text(reply, "template"),
        sorted({" ".join(line.split()) for line in _text(reply, "parameters").splitlines() if line.strip()}),
        _text(reply, "system"),
        _text(details if isinstance(details, dict) else {}, "quantization_level"),
        None if capabilities is None else sorted(capabilities),
    )
    return Shown(f"show:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}", capabilities, is_remote)


def read_capabilities(listed: Any) -> frozenset[str] | None:
    """Capabilities as Ollama lists them; None if it does not, as before 0.6.4."""
    if not isinstance(listed, list):
        return None
    return frozenset(one[:32] for one in listed[:CAPABILITIES_LIMIT] if isinstance(one, str))


def _text(reply: dict[str, Any], key: str) -> str:
    value = reply.get(key)
    return value if isinstance(value, str) else ""

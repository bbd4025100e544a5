"""What all found engines have in common: they run without us, so we only ask them, and believe little.

An engine's replies are read as a stranger's: bounded in size and number, entries with odd values dropped.
"""

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from pairproxy.config import EngineSettings
from pairproxy.core.catalogue import NAME_CHARACTERS
from pairproxy.core.documents import EngineReport, Listing
from pairproxy.core.models import EngineId, ModelName, Replica
from pairproxy.engines.catalogue import Texts, entries_of
from pairproxy.engines.ports import client_port, engine_address

MODELS_LIMIT = 512  # on one engine; the largest collections people show have about 200
SLOTS_LIMIT = 1024  # vLLM's own highest default is 1024 sequences at once
CONTEXT_LIMIT_TOKENS = 100_000_000  # ten times the longest window anybody offers
VERSION_CHARACTERS = 64

SETTLE_S = 1.0
"""Nothing tells when such an engine has dropped an abandoned request: Ollama and LM Studio have no such
number, and llama.cpp's /slots stays stale. They look at the connection between two batches of the prompt,
tenths of a second on the hardware they are for; a second covers that without idling a slot for long."""


class FoundEngine(ABC):
    """interfaces.Engine for a server that is already there; subclasses know what to ask it."""

    kind: str

    def __init__(self, settings: EngineSettings) -> None:
        """Raises ConfigError if ``settings.url`` is not on this machine."""
        self.host, self.port = engine_address(settings)
        self.id = EngineId(f"{self.kind}-{self.port}")
        self.listen = client_port(settings)
        self._slots = settings.slots
        self._only_here = f"only-here:{uuid.uuid4()}"

    async def start(self) -> None:  # noqa: B027 - not abstract: this is all of it
        """Nothing to start: it may also appear later, and the monitor will see it."""

    async def stop(self) -> None:  # noqa: B027
        """Nothing to stop: it is not ours."""

    def address(self, path: str) -> tuple[str, int]:
        """All paths are answered at one port."""
        return self.host, self.port

    @abstractmethod
    async def probe(self) -> EngineReport:
        """Ask what it serves now. Raises UpstreamError if it does not answer."""

    async def settled(self, others_in_flight: int) -> None:
        """Return after SETTLE_S, for nothing tells more."""
        await asyncio.sleep(SETTLE_S)

    def _report(
        self,
        version: Any,
        slots: Any,
        replicas: Iterator[tuple[Replica, bool]],
        texts: Mapping[Listing, Texts],
    ) -> EngineReport:
        """Put together what was learned; of two replicas with one name the first counts."""
        by_name: dict[ModelName, tuple[Replica, bool]] = {}
        for replica, is_loaded in replicas:
            if len(by_name) < MODELS_LIMIT:
                by_name.setdefault(replica.model, (replica, is_loaded))
        said = version if isinstance(version, str) and version.isprintable() else ""
        return EngineReport(
            engine=self.id,
            kind=self.kind,
            version=said[:VERSION_CHARACTERS],
            slots=self._slots or whole_number(slots, SLOTS_LIMIT) or 1,
            replicas=tuple(by_name[name] for name in sorted(by_name)),
            catalogue=entries_of(sorted(by_name), texts),
        )

    def _identity(self, *facts: Any) -> str:
        """Name content by facts about it. If one is unknown, no replica on another engine equals it."""
        if not facts or any(not isinstance(fact, str | int) or fact == "" for fact in facts):
            return self._only_here
        return f"{self.kind}:" + "/".join(str(fact)[:NAME_CHARACTERS] for fact in facts)


def entries(reply: Any, key: str) -> Iterator[dict[str, Any]]:
    """The objects in the list ``key`` of a reply, whatever else is in it; MODELS_LIMIT of them at most."""
    listed = reply.get(key) if isinstance(reply, dict) else None
    for entry in (listed if isinstance(listed, list) else [])[:MODELS_LIMIT]:
        if isinstance(entry, dict):
            yield entry


def whole_number(value: Any, limit: int) -> int | None:
    """``value`` if it is an integer from 1 to ``limit``, else None."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 1 <= value <= limit else None

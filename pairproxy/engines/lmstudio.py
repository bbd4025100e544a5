"""A found LM Studio: /api/v0/models lists what it has and whether it is loaded."""

from collections.abc import Iterator
from typing import Any

from pairproxy.config import EngineSettings
from pairproxy.core.catalogue import model_name
from pairproxy.core.documents import EngineReport, Listing
from pairproxy.core.errors import BrokenReply
from pairproxy.core.models import ModelName, Replica
from pairproxy.engines.ask import ask_bytes, parsed
from pairproxy.engines.catalogue import OtherListings, texts_of
from pairproxy.engines.found import CONTEXT_LIMIT_TOKENS, FoundEngine, entries, whole_number

_TEXT = frozenset({"completion", "insert", "thinking", "tools"})
_CAPABILITIES: dict[str, frozenset[str]] = {
    "llm": _TEXT,
    "vlm": _TEXT | {"vision"},
    "embeddings": frozenset({"embedding"}),
}
"""By the type of a model. Tools are offered to any text model, trained for them or not."""


class LmStudioEngine(FoundEngine):
    """It answers every unknown path with 200 and an error in the body, so only the body tells."""

    kind = "lmstudio"

    def __init__(self, settings: EngineSettings) -> None:
        """Raises ConfigError if ``settings.url`` is not on this machine."""
        super().__init__(settings)
        self._others = OtherListings(self.host, self.port, Listing.OPENAI, Listing.V1)

    async def probe(self) -> EngineReport:
        """Raises UpstreamError if it does not answer as LM Studio does."""
        listed = await ask_bytes(self.host, self.port, "/api/v0/models")
        reply = parsed(listed)
        if not is_model_list(reply):
            raise BrokenReply(f"What answers on port {self.port} is not an LM Studio that lists its models.")
        texts = {Listing.V0: texts_of(Listing.V0, listed), **await self._others.beside(listed)}
        return self._report(None, None, self._replicas(reply), texts)

    def _replicas(self, reply: Any) -> Iterator[tuple[Replica, bool]]:
        for entry in entries(reply, "data"):
            name = model_name(entry.get("id"))
            if name is None:
                continue
            facts = ("id", "publisher", "arch", "compatibility_type", "quantization", "max_context_length")
            identity = self._identity(*(entry.get(fact) for fact in facts))
            window = whole_number(entry.get("loaded_context_length"), CONTEXT_LIMIT_TOKENS)
            yield (
                Replica(ModelName(name), identity, window, capabilities=_capabilities(entry.get("type"))),
                entry.get("state") == "loaded",
            )


def _capabilities(kind: Any) -> frozenset[str] | None:
    return _CAPABILITIES.get(kind) if isinstance(kind, str) else None


def is_model_list(reply: Any) -> bool:
    """Whether it is LM Studio's list, not its error and not another server's list."""
    listed = reply.get("data") if isinstance(reply, dict) else None
    return isinstance(listed, list) and all("state" in entry for entry in entries(reply, "data"))

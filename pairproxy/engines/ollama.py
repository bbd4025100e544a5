"""A found Ollama: /api/version, /api/tags and /api/ps say all that can be known of it."""

import string
from collections.abc import Iterator
from typing import Any

from pairproxy.config import EngineSettings
from pairproxy.core.catalogue import model_name
from pairproxy.core.models import EngineReport, Listing, ModelName, Replica
from pairproxy.engines.ask import ask, ask_bytes, parsed
from pairproxy.engines.catalogue import OtherListings, texts_of
from pairproxy.engines.found import CONTEXT_LIMIT_TOKENS, FoundEngine, entries, whole_number

HEX = frozenset(string.hexdigits)


class OllamaEngine(FoundEngine):
    """Its slots cannot be asked (OLLAMA_NUM_PARALLEL is 1 unless set): the settings say them, else 1."""

    kind = "ollama"

    def __init__(self, settings: EngineSettings) -> None:
        """Raises ConfigError if ``settings.url`` is not on this machine."""
        super().__init__(settings)
        self._others = OtherListings(self.host, self.port, Listing.OPENAI)

    async def probe(self) -> EngineReport:
        """Raises UpstreamError if one of the three is not answered."""
        version = await ask(self.host, self.port, "/api/version")
        tags = await ask_bytes(self.host, self.port, "/api/tags")
        loaded = await ask_bytes(self.host, self.port, "/api/ps")
        said = version.get("version") if isinstance(version, dict) else None
        texts = {
            Listing.TAGS: texts_of(Listing.TAGS, tags),
            Listing.PS: texts_of(Listing.PS, loaded),
            **await self._others.beside(tags),
        }
        return self._report(said, None, _replicas(parsed(tags), parsed(loaded)), texts)


def _replicas(tags: Any, loaded: Any) -> Iterator[tuple[Replica, bool]]:
    windows = {
        (model_name(entry.get("name")), _digest(entry)): entry.get("context_length")
        for entry in entries(loaded, "models")
    }
    for entry in entries(tags, "models"):
        name, digest = model_name(entry.get("name")), _digest(entry)
        if name is None or digest is None or _is_remote(name, entry):
            continue
        window = whole_number(windows.get((name, digest)), CONTEXT_LIMIT_TOKENS)
        yield Replica(ModelName(name), f"sha256:{digest}", window), (name, digest) in windows


def _digest(entry: dict[str, Any]) -> str | None:
    digest = entry.get("digest")
    if not isinstance(digest, str):
        return None
    digest = digest.removeprefix("sha256:").lower()
    return digest if len(digest) == 64 and HEX.issuperset(digest) else None


def _is_remote(name: str, entry: dict[str, Any]) -> bool:
    """Whether the vendor's cloud runs it, with this machine's key and on this person's bill: never shared."""
    return (
        name.endswith((":cloud", "-cloud"))
        or bool(entry.get("remote_host"))
        or bool(entry.get("remote_model"))
    )

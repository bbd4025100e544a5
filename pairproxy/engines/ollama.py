"""A found Ollama: /api/version, /api/tags, /api/ps, and /api/show once a model, say all there is to know."""

import string
from collections.abc import Iterator
from typing import Any

from pairproxy.config import EngineSettings
from pairproxy.core.catalogue import model_name
from pairproxy.core.documents import EngineReport, Listing
from pairproxy.core.models import ModelName, Replica
from pairproxy.core.replicas import CLOUD, source_of
from pairproxy.engines.ask import ask, ask_bytes, parsed
from pairproxy.engines.catalogue import OtherListings, texts_of
from pairproxy.engines.found import CONTEXT_LIMIT_TOKENS, FoundEngine, entries, whole_number
from pairproxy.engines.ollama_show import Content, OllamaShow, read_capabilities
from pairproxy.interfaces import HALF_COPIED

HEX = frozenset(string.hexdigits)


_Model = tuple[ModelName, Content, dict[str, Any]]
"""(canonical name, content, entry in /api/tags)."""
_Windows = dict[tuple[ModelName, str], int | None]
"""(canonical name, digest) of what is loaded -> its window in tokens, None where it is not told."""


class OllamaEngine(FoundEngine):
    """Its slots cannot be asked (OLLAMA_NUM_PARALLEL is 1 unless set): the settings say them, else 1."""

    kind = "ollama"

    def __init__(self, settings: EngineSettings) -> None:
        """Raises ConfigError if ``settings.url`` is not on this machine."""
        super().__init__(settings)
        self._others = OtherListings(self.host, self.port, Listing.OPENAI)
        self._show = OllamaShow(self.host, self.port)

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
        models, windows = _models(parsed(tags)), _windows(parsed(loaded))
        loaded_first = sorted(models, key=lambda one: (one[0], one[1].digest) not in windows)
        await self._show.learn(content for _, content, _ in loaded_first)
        return self._report(said, None, self._replicas(models, windows), texts)

    def _replicas(self, models: list[_Model], windows: _Windows) -> Iterator[tuple[Replica, bool]]:
        for name, content, entry in models:
            shown = self._show.of(content)
            if shown.is_remote:
                continue
            replica = Replica(
                name,
                f"sha256:{content.digest}",
                windows.get((name, content.digest)),
                shown.facts,
                read_capabilities(entry.get("capabilities"))
                if shown.capabilities is None
                else shown.capabilities,
            )
            yield replica, (name, content.digest) in windows


def _models(tags: Any) -> list[_Model]:
    """The models that run here and can be identified."""
    found = []
    for entry in entries(tags, "models"):
        name, digest = model_name(entry.get("name")), _digest(entry)
        if name is not None and digest is not None and not (_is_remote(name, entry) or _is_half_copied(name)):
            found.append((name, Content(entry["name"], digest), entry))
    return found


def _windows(loaded: Any) -> _Windows:
    windows = {}
    for entry in entries(loaded, "models"):
        name, digest = model_name(entry.get("name")), _digest(entry)
        if name is not None and digest is not None:
            windows[name, digest] = whole_number(entry.get("context_length"), CONTEXT_LIMIT_TOKENS)
    return windows


def _digest(entry: dict[str, Any]) -> str | None:
    digest = entry.get("digest")
    if not isinstance(digest, str):
        return None
    digest = digest.removeprefix("sha256:").lower()
    return digest if len(digest) == 64 and HEX.issuperset(digest) else None


def _is_half_copied(name: str) -> bool:
    """Whether pairproxy itself is copying it here: in a moment it has another name, or is gone."""
    host, _, rest = name.partition("/")
    return host.startswith("127.") and rest.startswith(HALF_COPIED)


def _is_remote(name: str, entry: dict[str, Any]) -> bool:
    """Whether the vendor's cloud runs it, with this machine's key and on this person's bill: never shared."""
    return source_of(name) == CLOUD or bool(entry.get("remote_host")) or bool(entry.get("remote_model"))

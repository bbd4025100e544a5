"""A found llama-server: /props says its slots and window, /v1/models what it is."""

from collections.abc import Iterator
from typing import Any

from pairproxy.config import EngineSettings
from pairproxy.core.catalogue import model_name
from pairproxy.core.documents import EngineReport, Listing
from pairproxy.core.models import ModelName, Replica
from pairproxy.engines.ask import ask, ask_bytes, parsed
from pairproxy.engines.catalogue import SteadyTexts, texts_of
from pairproxy.engines.found import CONTEXT_LIMIT_TOKENS, FoundEngine, entries, whole_number


class LlamaCppEngine(FoundEngine):
    """A hash it has not: the counts in a model's header stand for its content."""

    kind = "llamacpp"

    def __init__(self, settings: EngineSettings) -> None:
        """Raises ConfigError if ``settings.url`` is not on this machine."""
        super().__init__(settings)
        self._steady = SteadyTexts()

    async def probe(self) -> EngineReport:
        """Raises UpstreamError if one of the two is not answered."""
        props = await ask(self.host, self.port, "/props")
        listed = await ask_bytes(self.host, self.port, "/v1/models")
        props = props if isinstance(props, dict) else {}
        replicas = self._replicas(parsed(listed), props)
        texts = {Listing.OPENAI: self._steady.of(texts_of(Listing.OPENAI, listed))}
        return self._report(props.get("build_info"), props.get("total_slots"), replicas, texts)

    def _replicas(self, models: Any, props: dict[str, Any]) -> Iterator[tuple[Replica, bool]]:
        defaults = props.get("default_generation_settings")
        window = whole_number(
            defaults.get("n_ctx") if isinstance(defaults, dict) else None, CONTEXT_LIMIT_TOKENS
        )
        for entry in entries(models, "data"):
            name, meta, status = model_name(entry.get("id")), entry.get("meta"), entry.get("status")
            if name is None:
                continue
            meta = meta if isinstance(meta, dict) else {}
            facts = ("n_params", "size", "n_vocab", "n_ctx_train", "n_embd")
            identity = self._identity(*(meta.get(fact) for fact in facts))
            is_loaded = not isinstance(status, dict) or status.get("value") == "loaded"  # router mode says it
            capabilities = _capabilities(props.get("modalities"))
            yield Replica(ModelName(name), identity, window, capabilities=capabilities), is_loaded


def _capabilities(modalities: Any) -> frozenset[str] | None:
    """What /props says of images and sound; text, tools and embeddings it takes with any model."""
    if not isinstance(modalities, dict):
        return None
    told = {one for one in ("vision", "audio") if modalities.get(one) is True}
    return frozenset({"completion", "embedding", "insert", "thinking", "tools"} | told)

"""A found server that speaks OpenAI's API and nothing more, such as vLLM: /v1/models is all it says."""

from collections.abc import Iterator
from typing import Any

from pairproxy.config import EngineSettings
from pairproxy.core.catalogue import model_name
from pairproxy.core.documents import EngineReport, Listing
from pairproxy.core.errors import BrokenReply
from pairproxy.core.models import ModelName, Replica
from pairproxy.engines.ask import ask_bytes, parsed
from pairproxy.engines.catalogue import SteadyTexts, texts_of
from pairproxy.engines.found import CONTEXT_LIMIT_TOKENS, FoundEngine, entries, whole_number


class OpenAiEngine(FoundEngine):
    """Without ``root`` and ``max_model_len`` (vLLM has them) its models equal none on another node."""

    kind = "openai"

    def __init__(self, settings: EngineSettings) -> None:
        """Raises ConfigError if ``settings.url`` is not on this machine."""
        super().__init__(settings)
        self._steady = SteadyTexts()

    async def probe(self) -> EngineReport:
        """Raises UpstreamError if it does not list models."""
        listed = await ask_bytes(self.host, self.port, "/v1/models")
        reply = parsed(listed)
        if not isinstance(reply, dict) or not isinstance(reply.get("data"), list):
            raise BrokenReply(f"What answers on port {self.port} does not list models as OpenAI's API does.")
        texts = {Listing.OPENAI: self._steady.of(texts_of(Listing.OPENAI, listed))}
        return self._report(None, None, self._replicas(reply), texts)

    def _replicas(self, reply: Any) -> Iterator[tuple[Replica, bool]]:
        for entry in entries(reply, "data"):
            name = model_name(entry.get("id"))
            if name is None:
                continue
            window = whole_number(entry.get("max_model_len"), CONTEXT_LIMIT_TOKENS)
            yield Replica(ModelName(name), self._identity(name, entry.get("root"), window), window), True

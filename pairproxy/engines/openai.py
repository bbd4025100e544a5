"""A found server that speaks OpenAI's API and nothing more, such as vLLM: /v1/models is all it says."""

from collections.abc import Iterator
from typing import Any

from pairproxy.core.errors import BrokenReply
from pairproxy.core.models import EngineReport, ModelName, Replica
from pairproxy.engines.ask import ask
from pairproxy.engines.found import CONTEXT_LIMIT_TOKENS, FoundEngine, entries, model_name, whole_number


class OpenAiEngine(FoundEngine):
    """Without ``root`` and ``max_model_len`` (vLLM has them) its models equal none on another node."""

    kind = "openai"

    async def probe(self) -> EngineReport:
        """Raises UpstreamError if it does not list models."""
        reply = await ask(self.host, self.port, "/v1/models")
        if not isinstance(reply, dict) or not isinstance(reply.get("data"), list):
            raise BrokenReply(f"What answers on port {self.port} does not list models as OpenAI's API does.")
        return self._report(None, None, self._replicas(reply))

    def _replicas(self, reply: Any) -> Iterator[tuple[Replica, bool]]:
        for entry in entries(reply, "data"):
            name = model_name(entry.get("id"))
            if name is None:
                continue
            window = whole_number(entry.get("max_model_len"), CONTEXT_LIMIT_TOKENS)
            yield Replica(ModelName(name), self._identity(name, entry.get("root"), window), window), True

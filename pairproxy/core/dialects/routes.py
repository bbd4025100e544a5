"""The route table: which requests may run on any node that holds the replica. All else stays here."""

from pairproxy.core.models import Dialect

INFERENCE: dict[str, Dialect] = {
    "/api/chat": Dialect.OLLAMA,
    "/api/generate": Dialect.OLLAMA,
    "/api/embed": Dialect.OLLAMA,
    "/api/embeddings": Dialect.OLLAMA,
    "/v1/chat/completions": Dialect.OPENAI,
    "/v1/completions": Dialect.OPENAI,
    "/v1/embeddings": Dialect.OPENAI,
}
"""POST paths that a peer may serve, literal: no decoding, no normalising, no prefix match."""

_EMBEDDINGS = frozenset({"/api/embed", "/api/embeddings", "/v1/embeddings"})
_STREAMS_BY_DEFAULT = frozenset({"/api/chat", "/api/generate"})


def path_of(target: str) -> str:
    """The path of a raw request target, undecoded."""
    return target.partition("?")[0]


def inference_dialect(method: str, target: str) -> Dialect | None:
    """The dialect of an inference request; None for everything that belongs to the local engine alone."""
    return INFERENCE.get(path_of(target)) if method == "POST" else None


def dialect_of(target: str) -> Dialect:
    """In whose words an error about this target is written."""
    return Dialect.OLLAMA if path_of(target).startswith("/api/") else Dialect.OPENAI


def is_embedding(target: str) -> bool:
    """Whether the reply has no output tokens."""
    return path_of(target) in _EMBEDDINGS


def streams_by_default(target: str) -> bool:
    """What a body without ``stream`` means: Ollama's chat and generate stream, the others do not."""
    return path_of(target) in _STREAMS_BY_DEFAULT

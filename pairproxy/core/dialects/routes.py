"""The one route table: what each request is, in whose words, and which engines know its path.

Rows are literal: nothing is decoded, normalised or matched by its beginning, and the query does not count. A
row that ends in ``/*`` stands for one more segment that is not empty. What is in no row is passed through.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pairproxy.core.models import Dialect

_OLLAMA, _OPENAI, _RESPONSES = Dialect.OLLAMA, Dialect.OPENAI, Dialect.RESPONSES
_ANTHROPIC, _LMSTUDIO, _LLAMACPP = Dialect.ANTHROPIC, Dialect.LMSTUDIO, Dialect.LLAMACPP


class Class(StrEnum):
    """What becomes of a request."""

    INFERENCE = "inference"  # may run on any node that holds the replica
    CATALOGUE = "catalogue"  # read only; answered from what all nodes have
    LOCAL = "local"  # changes or identifies this machine's engine, or belongs to what it remembers
    PASS = "pass"  # noqa: S105 everything else: the engine of this port answers it, whatever it is


@dataclass(frozen=True, slots=True)
class Inference:
    """An inference path. ``streams``: what a body without ``stream`` means. ``need``: in Ollama's words."""

    dialect: Dialect
    kinds: frozenset[str]  # of engines that know the path
    streams: bool = False
    has_output: bool = True  # False: the reply has no output tokens
    is_form: bool = False  # multipart/form-data instead of JSON
    need: str = ""


def _kinds(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ANY: Final = _kinds("ollama lmstudio llamacpp openai embedded paced")
_BIG: Final = _ANY - {"paced"}
_TAGGED: Final = _kinds("ollama embedded paced")  # the last two by the Ollama face
_LLAMA: Final = _kinds("llamacpp embedded")
_RANKING: Final = _LLAMA | {"openai"}
_STUDIO, _VLLM = _kinds("lmstudio"), _kinds("openai")

INFERENCE: Final[dict[str, Inference]] = {  # all of them POST
    "/api/chat": Inference(_OLLAMA, _TAGGED, streams=True),
    "/api/generate": Inference(_OLLAMA, _TAGGED, streams=True),
    "/api/embed": Inference(_OLLAMA, _TAGGED, has_output=False, need="embedding"),
    "/api/embeddings": Inference(_OLLAMA, _TAGGED, has_output=False, need="embedding"),
    "/v1/chat/completions": Inference(_OPENAI, _ANY),
    "/v1/completions": Inference(_OPENAI, _ANY),
    "/v1/embeddings": Inference(_OPENAI, _ANY, has_output=False, need="embedding"),
    "/v1/responses": Inference(_RESPONSES, _BIG),
    "/v1/messages": Inference(_ANTHROPIC, _BIG),
    "/v1/audio/transcriptions": Inference(_OPENAI, _RANKING | {"ollama"}, is_form=True, need="audio"),
    "/v1/audio/translations": Inference(_OPENAI, _VLLM, is_form=True, need="audio"),
    "/api/v0/chat/completions": Inference(_OPENAI, _STUDIO),
    "/api/v0/completions": Inference(_OPENAI, _STUDIO),
    "/api/v0/embeddings": Inference(_OPENAI, _STUDIO, has_output=False, need="embedding"),
    "/api/v1/chat": Inference(_LMSTUDIO, _STUDIO),
    "/chat/completions": Inference(_OPENAI, _LLAMA | {"paced"}),
    "/completions": Inference(_LLAMACPP, _LLAMA | {"paced"}),
    "/completion": Inference(_LLAMACPP, _LLAMA),
    "/infill": Inference(_LLAMACPP, _LLAMA, need="insert"),
    "/responses": Inference(_RESPONSES, _LLAMA),
    "/embedding": Inference(_LLAMACPP, _LLAMA, has_output=False, need="embedding"),
    "/embeddings": Inference(_LLAMACPP, _LLAMA, has_output=False, need="embedding"),
    "/rerank": Inference(_LLAMACPP, _RANKING, has_output=False),
    "/reranking": Inference(_LLAMACPP, _LLAMA, has_output=False),
    "/v1/rerank": Inference(_OPENAI, _RANKING, has_output=False),
    "/v1/reranking": Inference(_OPENAI, _LLAMA, has_output=False),
    "/v2/rerank": Inference(_OPENAI, _VLLM, has_output=False),
    "/v2/embed": Inference(_OPENAI, _VLLM, has_output=False, need="embedding"),
    "/v1/chat/completions/batch": Inference(_OPENAI, _VLLM),
    "/pooling": Inference(_OPENAI, _VLLM, has_output=False),
    "/classify": Inference(_OPENAI, _VLLM, has_output=False),
    "/score": Inference(_OPENAI, _VLLM, has_output=False),
}
CATALOGUE: Final[dict[str, str]] = {  # path -> methods
    "/api/tags": "GET HEAD", "/api/ps": "GET", "/api/version": "GET HEAD", "/api/show": "POST",
    "/v1/models": "GET", "/v1/models/*": "GET", "/models": "GET",
    "/api/v0/models": "GET", "/api/v0/models/*": "GET", "/api/v1/models": "GET",
}  # fmt: skip
LOCAL: Final[dict[str, str]] = {
    "/api/status": "GET", "/api/me": "POST", "/api/signout": "POST", "/api/user/keys/*": "DELETE",
    "/api/pull": "POST", "/api/push": "POST", "/api/create": "POST", "/api/copy": "POST",
    "/api/delete": "DELETE", "/api/blobs/*": "HEAD POST",
    "/api/experimental/web_search": "POST", "/api/experimental/web_fetch": "POST",
    "/api/experimental/model-recommendations": "GET",
    "/api/v1/models/load": "POST", "/api/v1/models/unload": "POST", "/api/v1/models/download": "POST",
    "/api/v1/models/download/status/*": "GET",
    "/models": "POST DELETE", "/models/load": "POST", "/models/unload": "POST", "/models/sse": "GET",
    "/lora-adapters": "GET POST", "/props": "POST", "/tools": "GET POST", "/cors-proxy": "GET POST",
    "/slots/*": "POST", "/v1/chat/completions/control": "POST", "/v1/streams": "GET",
    "/v1/stream/*": "GET DELETE", "/v1/responses/*": "GET DELETE", "/v1/responses/*/cancel": "POST",
}  # fmt: skip
SLOTLESS: Final = frozenset({
    "/tokenize", "/detokenize", "/apply-template", "/v1/messages/count_tokens", "/v1/responses/input_tokens",
    "/responses/input_tokens", "/chat/completions/input_tokens", "/v1/chat/completions/input_tokens",
})  # fmt: skip
"""POST paths that an engine answers beside its slots. In our queue they would wait: passed through."""

_LLAMA_WORDS: Final = frozenset(
    {"/health", "/slots", "/props", "/metrics", "/tokenize", "/detokenize", "/models"}
)
KEEPING: Final = frozenset({"lmstudio", "openai"})
"""Kinds of engines that keep replies, so that a later request can refer to one by its id."""


def path_of(target: str) -> str:
    """The path of a raw request target, undecoded."""
    return target.partition("?")[0]


def classify(method: str, target: str) -> Class:
    """The class of a request by its method and raw target."""
    path = path_of(target)
    if method == "POST" and path in INFERENCE:
        return Class.INFERENCE
    if method == "POST" and path in SLOTLESS:
        return Class.PASS
    for table, found in ((CATALOGUE, Class.CATALOGUE), (LOCAL, Class.LOCAL)):
        if method in (table.get(path) or table.get(_generalised(path), "")).split():
            return found
    return Class.PASS


def inference(target: str) -> Inference | None:
    """The row of an inference path."""
    return INFERENCE.get(path_of(target))


def inference_dialect(method: str, target: str) -> Dialect | None:
    """The dialect of an inference request; None for everything that belongs to the local engine alone."""
    row = inference(target) if method == "POST" else None
    return row.dialect if row is not None else None


def dialect_of(target: str) -> Dialect:
    """In whose words an error about this target is written."""
    path = path_of(target)
    row = INFERENCE.get(path)
    if row is not None:
        return row.dialect
    for beginning, dialect in (
        ("/api/v0/", _OPENAI), ("/api/v1/", _LMSTUDIO), ("/api/", _OLLAMA), ("/v1/messages/", _ANTHROPIC)
    ):  # fmt: skip
        if path.startswith(beginning):
            return dialect
    return _LLAMACPP if path in _LLAMA_WORDS or path.startswith("/slots/") else _OPENAI


def engine_kinds(path: str) -> frozenset[str]:
    """The kinds of engines that know a path; empty for a path that is no inference.

    The engine whose port was called may be asked whatever its kind: also its 404 is the authoritative answer.
    """
    row = INFERENCE.get(path)
    return row.kinds if row is not None else frozenset()


def is_embedding(target: str) -> bool:
    """Whether the reply has no output tokens."""
    row = inference(target)
    return row is not None and not row.has_output


def streams_by_default(target: str) -> bool:
    """What a body without ``stream`` means: Ollama's chat and generate stream, the others do not."""
    row = inference(target)
    return row is not None and row.streams


def _generalised(path: str) -> str:
    """The path with what may be its parameter written as a star; "" if there can be none."""
    head, _, last = path.rpartition("/")
    if last == "cancel":
        return f"{_generalised(head)}/cancel"
    return f"{head}/*" if last not in ("", ".", "..") else ""

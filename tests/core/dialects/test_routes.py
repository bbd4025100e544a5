"""The route table against a second one, written down path by path from what each vendor documents."""

import pytest

from pairproxy.core.dialects import routes
from pairproxy.core.dialects.routes import Class
from pairproxy.core.models import Dialect

# path: dialect, engines that have it; "+": streams unless told not to, "-": no output tokens, "=": a form
# fmt: off
INFERENCE = {
    "/api/chat": "ollama+ ollama embedded paced", "/api/generate": "ollama+ ollama embedded paced",
    "/api/embed": "ollama- ollama embedded paced", "/api/embeddings": "ollama- ollama embedded paced",
    "/v1/chat/completions": "openai ollama lmstudio llamacpp openai embedded paced",
    "/v1/completions": "openai ollama lmstudio llamacpp openai embedded paced",
    "/v1/embeddings": "openai- ollama lmstudio llamacpp openai embedded paced",
    "/v1/responses": "responses ollama lmstudio llamacpp openai embedded",
    "/v1/messages": "anthropic ollama lmstudio llamacpp openai embedded",
    "/v1/audio/transcriptions": "openai= ollama llamacpp openai embedded",
    "/v1/audio/translations": "openai= openai",
    "/api/v0/chat/completions": "openai lmstudio", "/api/v0/completions": "openai lmstudio",
    "/api/v0/embeddings": "openai- lmstudio", "/api/v1/chat": "lmstudio lmstudio",
    "/chat/completions": "openai llamacpp embedded paced", "/completions": "llamacpp llamacpp embedded paced",
    "/completion": "llamacpp llamacpp embedded", "/infill": "llamacpp llamacpp embedded",
    "/responses": "responses llamacpp embedded", "/embedding": "llamacpp- llamacpp embedded",
    "/embeddings": "llamacpp- llamacpp embedded", "/rerank": "llamacpp- llamacpp embedded openai",
    "/reranking": "llamacpp- llamacpp embedded", "/v1/rerank": "openai- llamacpp embedded openai",
    "/v1/reranking": "openai- llamacpp embedded", "/v2/rerank": "openai- openai",
    "/v2/embed": "openai- openai", "/v1/chat/completions/batch": "openai openai",
    "/pooling": "openai- openai", "/classify": "openai- openai", "/score": "openai- openai",
}
CATALOGUE = """GET /api/tags|HEAD /api/tags|GET /api/ps|GET /api/version|HEAD /api/version|POST /api/show|
    GET /v1/models|GET /v1/models/m|GET /v1/models/hf.co%2Fa%2Fb:Q4|GET /models|GET /api/v0/models|
    GET /api/v0/models/m|GET /api/v1/models"""
LOCAL = """GET /api/status|POST /api/me|POST /api/signout|DELETE /api/user/keys/k|POST /api/pull|
    POST /api/push|POST /api/create|POST /api/copy|DELETE /api/delete|
    HEAD /api/blobs/sha256:0|POST /api/blobs/sha256:0|
    POST /api/experimental/web_search|POST /api/experimental/web_fetch|
    GET /api/experimental/model-recommendations|
    POST /api/v1/models/load|POST /api/v1/models/unload|POST /api/v1/models/download|
    GET /api/v1/models/download/status/7|
    POST /models|DELETE /models|POST /models/load|POST /models/unload|GET /models/sse|GET /lora-adapters|
    POST /lora-adapters|POST /props|GET /tools|POST /tools|GET /cors-proxy|POST /cors-proxy|POST /slots/1|
    POST /v1/chat/completions/control|GET /v1/streams|GET /v1/stream/c|DELETE /v1/stream/c|
    GET /v1/responses/resp_1|DELETE /v1/responses/resp_1|POST /v1/responses/resp_1/cancel"""
SLOTLESS = """POST /tokenize|POST /detokenize|POST /apply-template|POST /v1/messages/count_tokens|
    POST /v1/responses/input_tokens|POST /responses/input_tokens|POST /chat/completions/input_tokens|
    POST /v1/chat/completions/input_tokens"""
PASSED = """GET /|HEAD /|GET /health|GET /v1/health|GET /metrics|GET /slots|GET /props|GET /version|GET /load|
    GET /lmstudio-greeting|GET /lms-status|GET /llm|OPTIONS /v1/chat/completions|GET /api/chat|PUT /api/pull|
    GET /v1/models/|GET /v1/models/a/b|GET /v1/models/..|GET /api/version/|GET //v1/models|POST /api/tags|
    POST /v1/audio/speech"""
NONE = ["/api/pull", "/v1/models", "/api/chat/", "/API/chat", "//api/chat", "/api/%63hat", "/v1/../api/chat",
        "/api/chat;x", "/api/chat#x", "", "*", "http://h/api/chat", "/api/chatter", "/v1/chat/completions/"]
# fmt: on


def pairs(text: str) -> list[tuple[str, str]]:
    """Method and path of each entry."""
    return [(entry.split()[0], entry.split()[1]) for entry in text.split("|")]


def test_the_inference_rows_are_these() -> None:
    """Not one more, not one fewer, each with its words, its engines and its defaults."""
    written = {}
    for path, row in routes.INFERENCE.items():
        mark = ("+" if row.streams else "") + ("" if row.has_output else "-") + ("=" if row.is_form else "")
        written[path] = (f"{row.dialect}{mark}", row.kinds)
    expected = {path: text.split() for path, text in INFERENCE.items()}
    assert written == {path: (words[0], frozenset(words[1:])) for path, words in expected.items()}


@pytest.mark.parametrize("path", INFERENCE)
def test_inference_may_run_anywhere(path: str) -> None:
    """A query does not matter, the method does."""
    row = routes.INFERENCE[path]
    assert routes.inference_dialect("POST", f"{path}?beta=true") is row.dialect
    assert routes.classify("POST", f"{path}?beta=true") is Class.INFERENCE
    assert routes.inference_dialect("GET", path) is None
    assert routes.classify("GET", path) is Class.PASS
    assert routes.dialect_of(f"{path}?beta=true") is row.dialect
    assert routes.is_embedding(f"{path}?x") is not row.has_output
    assert routes.streams_by_default(path) is row.streams
    assert routes.engine_kinds(path) == row.kinds
    assert (row.need == "embedding") is ("embed" in path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CATALOGUE, Class.CATALOGUE),
        (LOCAL, Class.LOCAL),
        (SLOTLESS, Class.PASS),
        (PASSED, Class.PASS),
    ],
)
def test_every_other_request_has_its_class(text: str, expected: Class) -> None:
    """And none of them is one that a peer may serve."""
    for method, path in pairs(text):
        assert (path, routes.classify(method, path + "?x=1")) == (path, expected)
        assert routes.inference_dialect(method, path) is None


def test_no_row_is_untold() -> None:
    """Every row of the tables beside inference is asked for above."""
    for table, text in ((routes.CATALOGUE, CATALOGUE), (routes.LOCAL, LOCAL)):
        rows = {(method, path) for path, methods in table.items() for method in methods.split()}
        told = {
            row for row in rows for method, path in pairs(text) if method == row[0] and matches(row[1], path)
        }
        assert rows == told
        assert {(method, path) for method, path in pairs(text)} >= {row for row in rows if "*" not in row[1]}
    assert {path for _, path in pairs(SLOTLESS)} == routes.SLOTLESS


def matches(row: str, path: str) -> bool:
    """Whether a row with stars is the path's."""
    parts, wanted = path.split("/"), row.split("/")
    return len(parts) == len(wanted) and all(
        one in ("*", part) for one, part in zip(wanted, parts, strict=True)
    )


@pytest.mark.parametrize("target", NONE)
def test_what_only_looks_like_inference_is_none(target: str) -> None:
    """The paths are literal."""
    assert routes.inference_dialect("POST", target) is None
    assert routes.engine_kinds(target) == frozenset()
    assert not routes.is_embedding(target)
    assert not routes.streams_by_default(target)


@pytest.mark.parametrize(
    ("target", "dialect"),
    [
        ("/api/unknown", Dialect.OLLAMA),
        ("/api/pull?x", Dialect.OLLAMA),
        ("/api/v1/models/load", Dialect.LMSTUDIO),
        ("/api/v0/models", Dialect.OPENAI),
        ("/v1/messages/count_tokens?beta=true", Dialect.ANTHROPIC),
        ("/slots/1?action=save", Dialect.LLAMACPP),
        ("/health", Dialect.LLAMACPP),
        ("/v1/unknown", Dialect.OPENAI),
        ("/", Dialect.OPENAI),
        ("", Dialect.OPENAI),
    ],
)
def test_an_error_is_written_in_the_words_of_its_path(target: str, dialect: Dialect) -> None:
    """Also for paths that are in no row."""
    assert routes.dialect_of(target) is dialect


def test_two_kinds_of_engines_keep_replies() -> None:
    """Ollama and llama-server forget each one."""
    assert {"lmstudio", "openai"} == routes.KEEPING

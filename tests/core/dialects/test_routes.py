import pytest

from pairproxy.core.dialects import routes
from pairproxy.core.models import Dialect


@pytest.mark.parametrize(
    ("target", "dialect"),
    [
        ("/api/chat", Dialect.OLLAMA),
        ("/api/embed?x=1", Dialect.OLLAMA),
        ("/v1/chat/completions", Dialect.OPENAI),
    ],
)
def test_inference_may_run_anywhere(target: str, dialect: Dialect) -> None:
    """A query does not matter, the method does."""
    assert routes.inference_dialect("POST", target) is dialect
    assert routes.inference_dialect("GET", target) is None


@pytest.mark.parametrize(
    "target",
    [
        "/api/pull", "/api/delete", "/api/create", "/v1/models", "/api/chat/", "/API/chat", "//api/chat",
        "/api/%63hat",
        "/v1/../api/chat", "/api/chat;x", "/api/chat#x", "", "*", "http://h/api/chat", "/api/chatter",
    ],
)  # fmt: skip
def test_everything_else_belongs_to_the_local_engine(target: str) -> None:
    """The paths are literal: what only looks like one of them is none of them."""
    assert routes.inference_dialect("POST", target) is None


def test_an_error_is_written_in_the_words_of_its_path() -> None:
    """Ollama's below /api/, OpenAI's everywhere else."""
    assert routes.dialect_of("/api/unknown") is Dialect.OLLAMA
    assert routes.dialect_of("/v1/unknown") is routes.dialect_of("/") is Dialect.OPENAI


def test_every_route_is_one_of_its_dialect() -> None:
    """The two tables agree; embeddings have no output, and only Ollama's text routes stream by default."""
    for path, dialect in routes.INFERENCE.items():
        assert routes.dialect_of(path) is dialect
        assert routes.is_embedding(path + "?x") == ("embed" in path)
        assert routes.streams_by_default(path) == (path in {"/api/chat", "/api/generate"})

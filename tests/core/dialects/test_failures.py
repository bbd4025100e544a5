import json

import pytest

from pairproxy.core import errors
from pairproxy.core.dialects.failures import error_body, final_line
from pairproxy.core.errors import (
    BadRequest,
    BodyTooLarge,
    CodingUnknown,
    ModelNotFound,
    PairproxyError,
    QueueFull,
)
from pairproxy.core.models import Dialect

OPENAI, RESPONSES, ANTHROPIC = Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC
LMSTUDIO, LLAMACPP = Dialect.LMSTUDIO, Dialect.LLAMACPP
EVERY = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, PairproxyError)]


def test_ollama_errors_are_one_string() -> None:
    """As Ollama's clients show them."""
    assert json.loads(error_body(Dialect.OLLAMA, QueueFull('say "later"'))) == {"error": 'say "later"'}


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (OPENAI, {"error": {"message": "x", "type": "not_found_error", "param": None, "code": None}}),
        (RESPONSES, {"error": {"message": "x", "type": "not_found_error", "param": None, "code": None}}),
        (
            ANTHROPIC,
            {
                "type": "error",
                "error": {"type": "not_found_error", "message": "x"},
                "request_id": "req_pairproxy",
            },
        ),
        (LMSTUDIO, {"error": {"type": "model_not_found", "message": "x"}}),
        (LLAMACPP, {"error": {"code": 404, "message": "x", "type": "not_found_error"}}),
    ],
)
def test_the_others_are_objects(dialect: Dialect, expected: dict[str, object]) -> None:
    """Each in its own shape."""
    assert json.loads(error_body(dialect, ModelNotFound("x"))) == expected


@pytest.mark.parametrize(
    ("dialect", "error", "kind"),
    [
        (OPENAI, BadRequest, "invalid_request_error"), (OPENAI, QueueFull, "api_error"),
        (ANTHROPIC, BadRequest, "invalid_request_error"), (ANTHROPIC, QueueFull, "overloaded_error"),
        (ANTHROPIC, BodyTooLarge, "request_too_large"), (ANTHROPIC, errors.Unreachable, "api_error"),
        (LMSTUDIO, BadRequest, "invalid_request"), (LMSTUDIO, CodingUnknown, "not_implemented"),
        (LMSTUDIO, QueueFull, "internal_error"), (LLAMACPP, BadRequest, "invalid_request_error"),
        (LLAMACPP, QueueFull, "unavailable_error"), (LLAMACPP, CodingUnknown, "not_supported_error"),
        (LLAMACPP, errors.Unreachable, "server_error"),
    ],
)  # fmt: skip
def test_a_status_has_its_type(dialect: Dialect, error: type[PairproxyError], kind: str) -> None:
    """The words that the vendor documents for it."""
    assert json.loads(error_body(dialect, error("x")))["error"]["type"] == kind


@pytest.mark.parametrize("dialect", Dialect)
def test_every_error_can_be_said(dialect: Dialect) -> None:
    """With its sentence, in JSON, whatever its class."""
    for error in EVERY:
        assert "say so" in error_body(dialect, error("say so")).decode()


def test_only_ollamas_streams_can_end_with_an_error() -> None:
    """It is a line of its own; a broken stream of events just breaks off."""
    line = final_line(Dialect.OLLAMA, QueueFull("lost\nnode"))
    assert line is not None
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"error": "lost\nnode"}
    for dialect in Dialect:
        assert dialect is Dialect.OLLAMA or final_line(dialect, QueueFull("lost")) is None

import json

import pytest

from pairproxy.core.dialects.failures import error_body, final_line
from pairproxy.core.errors import BadRequest, ModelNotFound, PairproxyError, QueueFull
from pairproxy.core.models import Dialect


def test_ollama_errors_are_one_string() -> None:
    """As Ollama's clients show them."""
    assert json.loads(error_body(Dialect.OLLAMA, QueueFull('say "later"'))) == {"error": 'say "later"'}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadRequest("x"), "invalid_request_error"),
        (ModelNotFound("x"), "not_found_error"),
        (QueueFull("x"), "api_error"),
    ],
)
def test_openai_errors_are_an_object_with_a_type(error: PairproxyError, kind: str) -> None:
    """As OpenAI's clients read them."""
    assert json.loads(error_body(Dialect.OPENAI, error)) == {
        "error": {"message": "x", "type": kind, "param": None, "code": None}
    }


def test_only_ollamas_streams_can_end_with_an_error() -> None:
    """It is a line of its own; a broken stream of events just breaks off."""
    line = final_line(Dialect.OLLAMA, QueueFull("lost\nnode"))
    assert line is not None
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"error": "lost\nnode"}
    assert final_line(Dialect.OPENAI, QueueFull("lost")) is None

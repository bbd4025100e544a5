import json
from typing import Any

import msgspec
import pytest

from pairproxy.core.dialects import reading_options
from pairproxy.core.dialects.reading_json import Ambiguous, Fields, read_fields
from pairproxy.core.dialects.reading_options import Options, flag, is_thinking
from pairproxy.core.models import Dialect


def fields(**body: Any) -> Fields:
    """The fields of a body."""
    return read_fields(json.dumps(body).encode())


def options(**given: Any) -> Options:
    """What Ollama's options say."""
    return reading_options.read(Dialect.OLLAMA, fields(options=given))


@pytest.mark.parametrize(
    ("dialect", "body", "limit"),
    [
        (Dialect.OLLAMA, {"options": {"num_predict": 5}}, 5),
        (Dialect.OLLAMA, {"options": {"num_predict": -1}}, None),
        (Dialect.OLLAMA, {"options": None}, None),
        (Dialect.OLLAMA, {"max_tokens": 5}, None),
        (Dialect.OPENAI, {"max_tokens": 5}, 5),
        (Dialect.OPENAI, {"max_tokens": 5, "max_completion_tokens": 7.0}, 7),
        (Dialect.OPENAI, {"max_tokens": None}, None),
        (Dialect.RESPONSES, {"max_output_tokens": 5}, 5),
        (Dialect.ANTHROPIC, {"max_tokens": 5}, 5),
        (Dialect.LMSTUDIO, {"max_output_tokens": 5}, 5),
        (Dialect.LLAMACPP, {"n_predict": 5}, 5),
        (Dialect.LLAMACPP, {"n_predict": -1}, None),
    ],
)
def test_the_clients_limit_is_read_where_its_dialect_has_it(
    dialect: Dialect, body: dict[str, Any], limit: int | None
) -> None:
    """A negative number means no limit."""
    assert reading_options.read(dialect, fields(**body)).limit == limit


@pytest.mark.parametrize(
    ("given", "runner"),
    [
        ({}, ""),
        ({"temperature": 0.5, "seed": 1, "num_predict": 3, "stop": ["x"]}, ""),
        ({"num_ctx": None, "num_gpu": None}, ""),
        ({"num_gpu": -1}, ""),
        ({"num_gpu": 0}, '{"num_gpu":0}'),
        ({"num_thread": 4, "num_ctx": 8192}, '{"num_ctx":8192,"num_thread":4}'),
        ({"num_ctx": 8192.0}, '{"num_ctx":8192}'),
        ({"use_mmap": False}, '{"use_mmap":false}'),
        (
            {"main_gpu": 1, "num_batch": 2, "draft_num_predict": 3},
            '{"draft_num_predict":3,"main_gpu":1,"num_batch":2}',
        ),
    ],
)
def test_what_makes_ollama_load_anew_has_one_spelling(given: dict[str, Any], runner: str) -> None:
    """The seven options of its runner and no others, in one order; null is unset."""
    assert options(**given).runner == runner


def test_a_window_is_asked_for_in_two_dialects() -> None:
    """Ollama's num_ctx, LM Studio's context_length; elsewhere the words mean nothing."""
    assert options(num_ctx=8192).context_tokens == 8192
    assert options().context_tokens is None
    for dialect in Dialect:
        read = reading_options.read(dialect, fields(context_length=8192))
        assert read.context_tokens == (8192 if dialect is Dialect.LMSTUDIO else None)


@pytest.mark.parametrize("given", [{"num_ctx": "8k"}, {"num_predict": []}])
def test_options_of_another_kind_are_not_read(given: dict[str, Any]) -> None:
    """The engine says what is wrong with them."""
    with pytest.raises(msgspec.DecodeError):
        options(**given)


def test_options_that_say_a_thing_twice_are_ambiguous() -> None:
    """The last would count in Go, and somebody else may take the first."""
    with pytest.raises(Ambiguous):
        reading_options.read(Dialect.OLLAMA, read_fields(b'{"options":{"num_ctx":1,"num_ctx":2}}'))


@pytest.mark.parametrize(
    ("dialect", "body", "thinks"),
    [
        (Dialect.OLLAMA, {"think": True}, True), (Dialect.OLLAMA, {"think": "high"}, True),
        (Dialect.OLLAMA, {"think": False}, False), (Dialect.OLLAMA, {"think": None}, False),
        (Dialect.OPENAI, {"reasoning_effort": "low"}, True),
        (Dialect.OPENAI, {"reasoning_effort": "none"}, False),
        (Dialect.RESPONSES, {"reasoning": {"effort": "low"}}, True),
        (Dialect.RESPONSES, {"reasoning": {}}, False),
        (Dialect.RESPONSES, {"reasoning": {"effort": None}}, False),
        (Dialect.ANTHROPIC, {"thinking": {"type": "enabled"}}, True),
        (Dialect.ANTHROPIC, {"thinking": {"type": "disabled"}}, False),
        (Dialect.ANTHROPIC, {"thinking": 7}, False),
        (Dialect.LMSTUDIO, {"reasoning": "on"}, True), (Dialect.LMSTUDIO, {"reasoning": "off"}, False),
        (Dialect.LLAMACPP, {}, False),
    ],
)  # fmt: skip
def test_thinking_is_asked_for_in_each_dialects_words(
    dialect: Dialect, body: dict[str, Any], thinks: bool
) -> None:
    """Not to think takes nothing of a model."""
    assert is_thinking(dialect, fields(**body)) is thinks


def test_a_flag_is_true_false_or_the_default() -> None:
    """Anything else is not read."""
    assert flag(fields(stream=True), "stream", False)
    assert not flag(fields(stream=False), "stream", True)
    assert flag(fields(stream=None), "stream", True)
    assert flag(fields(), "stream", True)
    with pytest.raises(msgspec.DecodeError):
        flag(fields(stream="yes"), "stream", True)

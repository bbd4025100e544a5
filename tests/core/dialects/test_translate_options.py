from typing import Any

import pytest

from pairproxy.core.dialects.translate_options import json_schema, response_format, sampling
from pairproxy.core.errors import BadRequest


def translated(**options: Any) -> dict[str, Any]:
    """These options by the names of the engine."""
    return sampling({"options": options})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"temperature": 0.5, "top_p": 1, "min_p": 0.1}, {"temperature": 0.5, "top_p": 1, "min_p": 0.1}),
        ({"top_k": 40, "seed": -1, "repeat_last_n": 64.0}, {"top_k": 40, "seed": -1, "repeat_last_n": 64}),
        ({"num_predict": 7}, {"max_tokens": 7}),
        ({"num_predict": -1}, {}),
        ({"num_predict": -2}, {}),
        ({"num_keep": 4}, {"n_keep": 4}),
        ({"stop": ["a", "b"]}, {"stop": ["a", "b"]}),
        ({"stop": "a"}, {"stop": ["a"]}),
        ({"ignore_eos": True, "cache_prompt": False}, {"ignore_eos": True, "cache_prompt": False}),
        ({"num_ctx": 8192, "num_gpu": 1, "num_thread": 4, "nonsense": "x"}, {}),
        ({"temperature": None, "stop": None, "num_predict": None}, {}),
        ({"mirostat": 2, "typical_p": 0.7}, {"mirostat": 2, "typical_p": 0.7}),
    ],
)
def test_options_get_the_names_of_the_engine(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """Sampling options are renamed where need be; the runner's, unknown ones and nulls are left out."""
    assert translated(**given) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": "hot"},
        {"temperature": True},
        {"top_k": 1.5},
        {"top_k": 2**31},
        {"seed": 2**32},
        {"num_predict": "many"},
        {"stop": 3},
        {"stop": ["a", 3]},
        {"ignore_eos": 1},
    ],
)
def test_a_wrong_type_is_named(options: dict[str, Any]) -> None:
    """The refusal names the option."""
    with pytest.raises(BadRequest, match=f'option "{next(iter(options))}"'):
        translated(**options)


def test_options_must_be_an_object() -> None:
    """A list of options is refused, null is none."""
    assert sampling({"options": None}) == {}
    with pytest.raises(BadRequest):
        sampling({"options": []})


def test_format_becomes_a_response_format() -> None:
    """ "json" asks for any object, a schema for that schema, an empty text for nothing."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert response_format({"format": ""}) == response_format({}) == {}
    assert response_format({"format": "json"})["response_format"] == {"type": "json_object"}
    asked = response_format({"format": schema})["response_format"]
    assert (asked["type"], asked["json_schema"]["schema"]) == ("json_schema", schema)


def test_a_bare_completion_takes_a_bare_schema() -> None:
    """llama.cpp reads json_schema at /v1/completions."""
    assert json_schema({"format": {"type": "array"}}) == {"json_schema": {"type": "array"}}
    assert json_schema({"format": "json"}) == {"json_schema": {"type": "object"}}
    assert json_schema({}) == {}


@pytest.mark.parametrize("wanted", ["yaml", 3, ["json"]])
def test_an_unknown_format_is_refused(wanted: object) -> None:
    """Only "json" and schemas are formats."""
    with pytest.raises(BadRequest, match="format"):
        response_format({"format": wanted})

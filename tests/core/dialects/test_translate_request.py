import json
from dataclasses import replace
from typing import Any

import pytest

from pairproxy.core.dialects.translate_request import Call, Route, requested_model, translate_request
from pairproxy.core.errors import BadRequest
from tests.core.dialects.test_ollama_catalogue import CARD

ABLE = replace(CARD, capabilities=("completion", "tools", "thinking", "vision", "insert"))
MESSAGES = [{"role": "user", "content": "hi"}]
IMAGE = "iVBORw0KGgo="


def call(route: Route, **body: Any) -> Call:
    """The call for a model that can do everything."""
    return translate_request(route, {"model": "SmolLM2:135M", **body}, ABLE)


def question(route: Route, **body: Any) -> dict[str, Any]:
    """What the engine is asked."""
    return dict(json.loads(call(route, **body).body))


def test_a_chat_becomes_a_chat_completion() -> None:
    """Messages and options arrive by OpenAI's names, and the name is echoed as the client wrote it."""
    asked = call(Route.CHAT, messages=MESSAGES, options={"num_predict": 5, "num_ctx": 99}, keep_alive="5m")
    assert (asked.path, asked.model, asked.done_reason) == ("/v1/chat/completions", "SmolLM2:135M", None)
    assert json.loads(asked.body) == {
        "model": "smollm2:135m",
        "messages": MESSAGES,
        "max_tokens": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("route", [Route.CHAT, Route.GENERATE])
def test_streaming_is_the_default(route: Route) -> None:
    """Absent and null mean yes on Ollama's routes, and a stream asks for its usage."""
    words = {"messages": MESSAGES, "prompt": "hi"}
    assert call(route, **words).is_streaming
    assert call(route, **words, stream=None).is_streaming
    assert question(route, **words)["stream_options"] == {"include_usage": True}
    assert not call(route, **words, stream=False).is_streaming
    assert question(route, **words, stream=False)["stream"] is False


def test_generate_uses_the_models_own_template() -> None:
    """A prompt with a system text is a conversation of two messages."""
    assert call(Route.GENERATE, prompt="hi").path == "/v1/chat/completions"
    assert question(Route.GENERATE, prompt="hi", system="be brief")["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
    ]


def test_a_raw_prompt_is_a_bare_completion() -> None:
    """raw sends the prompt untouched, with a schema by llama.cpp's name."""
    asked = call(Route.GENERATE, prompt="<s>hi", raw=True, format={"type": "object"}, logprobs=True)
    assert asked.path == "/v1/completions"
    body = json.loads(asked.body)
    assert (body["prompt"], body["json_schema"], body["logprobs"]) == ("<s>hi", {"type": "object"}, 1)


def test_a_template_of_plain_fields_is_filled() -> None:
    """The named fields of a template are replaced by their texts, never by one another's."""
    template = "[{{ .System }}] {{- .Prompt -}} <"
    asked = call(Route.GENERATE, prompt="{{ .System }}", system="S", template=template)
    assert asked.path == "/v1/completions"
    assert json.loads(asked.body)["prompt"] == "[S] {{ .System }} <"


def test_a_template_with_logic_is_refused() -> None:
    """What would need Ollama's template language is said, not ignored."""
    with pytest.raises(BadRequest, match="template"):
        call(Route.GENERATE, prompt="x", template="{{ if .System }}{{ .System }}{{ end }}")


def test_a_suffix_is_passed_on() -> None:
    """A model that can insert gets the text after the gap."""
    assert question(Route.GENERATE, prompt="def f(", suffix="return 1")["suffix"] == "return 1"


@pytest.mark.parametrize("template", ["{{" + " " * 20_000, "{{ " * 80_000, "x" * 80_000])
def test_a_field_that_does_not_end_is_text(template: str) -> None:
    """Three kilobytes of blanks held everybody up for half a minute."""
    assert question(Route.GENERATE, prompt="x", template=template)["prompt"] == template


def test_a_template_that_names_the_prompt_without_end_is_refused() -> None:
    """A megabyte of names for a prompt of a megabyte is a terabyte."""
    with pytest.raises(BadRequest, match="longer than any model reads"):
        call(Route.GENERATE, prompt="x" * 100_000, template="{{ .Prompt }}" * 100_000)


def test_a_time_that_is_no_number_loads() -> None:
    """Forty zeros and a letter held everybody up for hours."""
    for keep_alive in ("0" * 60 + "x", "0." * 60 + "x", "0s" * 60 + "x"):
        assert call(Route.GENERATE, keep_alive=keep_alive).done_reason == "load"


def test_thinking_is_asked_of_the_template() -> None:
    """true, false and a level reach the model's chat template."""
    arguments = "chat_template_kwargs"
    assert question(Route.CHAT, messages=MESSAGES, think=False)[arguments] == {"enable_thinking": False}
    assert question(Route.CHAT, messages=MESSAGES, think="low")[arguments] == {
        "enable_thinking": True,
        "reasoning_effort": "low",
    }
    assert arguments not in question(Route.CHAT, messages=MESSAGES)
    assert arguments not in json.loads(
        translate_request(Route.CHAT, {"model": "m", "messages": MESSAGES, "think": False}, CARD).body
    )


@pytest.mark.parametrize(
    ("route", "body", "capability"),
    [
        (Route.CHAT, {"messages": MESSAGES, "tools": [{"type": "function"}]}, "tools"),
        (Route.CHAT, {"messages": MESSAGES, "think": True}, "thinking"),
        (Route.CHAT, {"messages": [{"role": "user", "content": "x", "images": [IMAGE]}]}, "vision"),
        (Route.GENERATE, {"prompt": "x", "images": [IMAGE]}, "vision"),
        (Route.GENERATE, {"prompt": "x", "suffix": "y"}, "insert"),
    ],
)
def test_what_the_model_cannot_do_is_refused_by_name(
    route: Route, body: dict[str, Any], capability: str
) -> None:
    """Ollama's words for a missing capability."""
    with pytest.raises(BadRequest, match=f'^"m:x" does not support {capability}$'):
        translate_request(route, {"model": "m:x", **body}, CARD)


@pytest.mark.parametrize(
    ("keep_alive", "reason"),
    [(keep_alive, "load") for keep_alive in (None, 300, -1, "5m", "0.5s", "soon")]
    + [(keep_alive, "unload") for keep_alive in (0, 0.0, "0", "0s", "0h0m0s", "-0s")],
)
@pytest.mark.parametrize("route", [Route.CHAT, Route.GENERATE])
def test_nothing_to_say_loads_or_unloads(route: Route, keep_alive: object, reason: str) -> None:
    """Without messages or prompt nothing is asked; a keep_alive of no time unloads."""
    for words in ({}, {"messages": [], "prompt": ""}):
        asked = call(route, **words, keep_alive=keep_alive)
        assert (asked.done_reason, asked.path, asked.body) == (reason, "", b"")


def test_texts_to_embed_are_a_list() -> None:
    """One text or many, OpenAI gets a list and answers with numbers."""
    assert question(Route.EMBED, input="a") == {
        "model": CARD.name,
        "input": ["a"],
        "encoding_format": "float",
    }
    assert question(Route.EMBED, input=["a", "b"])["input"] == ["a", "b"]
    assert question(Route.EMBEDDINGS, prompt="a")["input"] == ["a"]
    assert call(Route.EMBED, input=[]).done_reason == "load"
    assert call(Route.EMBEDDINGS, prompt="").done_reason == "load"
    assert call(Route.EMBED, input="a", dimensions=8).dimensions == 8


@pytest.mark.parametrize(
    ("route", "body"),
    [
        (Route.CHAT, {"messages": "hi"}),
        (Route.CHAT, {"messages": MESSAGES, "stream": "yes"}),
        (Route.CHAT, {"messages": MESSAGES, "options": []}),
        (Route.CHAT, {"messages": MESSAGES, "tools": {}}),
        (Route.CHAT, {"messages": MESSAGES, "think": 3}),
        (Route.CHAT, {"messages": MESSAGES, "top_logprobs": 21}),
        (Route.CHAT, {"messages": [], "keep_alive": []}),
        (Route.GENERATE, {"prompt": 3}),
        (Route.GENERATE, {"prompt": "x", "raw": True, "system": "s"}),
        (Route.GENERATE, {"prompt": "x", "raw": True, "images": [IMAGE]}),
        (Route.EMBED, {"input": [1, 2]}),
        (Route.EMBED, {"input": {"a": 1}}),
        (Route.EMBED, {"input": "x", "dimensions": -1}),
        (Route.EMBEDDINGS, {"prompt": ["x"]}),
    ],
)
def test_wrong_types_are_refused(route: Route, body: dict[str, Any]) -> None:
    """A wrong shape is a BadRequest with a sentence."""
    with pytest.raises(BadRequest):
        call(route, **body)


@pytest.mark.parametrize("body", [{}, {"model": None}, {"model": ""}, {"model": "  "}, {"model": 3}])
def test_a_request_names_its_model(body: dict[str, Any]) -> None:
    """A missing name is a BadRequest; the older key "name" will do."""
    with pytest.raises(BadRequest, match="model"):
        requested_model(body)
    assert requested_model({"name": "m"}) == "m"

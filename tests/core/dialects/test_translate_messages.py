import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.dialects.translate_messages import (
    ollama_tool_calls,
    openai_messages,
    openai_tools,
    user_content,
)
from pairproxy.core.errors import BadRequest

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()
ARGUMENTS = st.dictionaries(
    st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())
)
CALLS = st.lists(st.tuples(st.text(min_size=1), ARGUMENTS), min_size=1, max_size=4)


def ollama_call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A tool call as Ollama writes it."""
    return {"function": {"name": name, "arguments": arguments}}


@given(CALLS)
def test_tool_calls_survive_the_round_trip(calls: list[tuple[str, dict[str, Any]]]) -> None:
    """Ollama's calls as OpenAI's and back are the same names and arguments in the same order."""
    asked = [ollama_call(name, arguments) for name, arguments in calls]
    message = openai_messages({"messages": [{"role": "assistant", "content": "", "tool_calls": asked}]})[0]
    assert all(isinstance(call["function"]["arguments"], str) for call in message["tool_calls"])
    back = ollama_tool_calls(message["tool_calls"]) or []
    assert [(call["function"]["name"], call["function"]["arguments"]) for call in back] == calls


@pytest.mark.parametrize(
    ("answers", "ids"),
    [
        ([{"tool_name": "b"}, {"tool_name": "a"}], ["call_1", "call_0"]),
        ([{}, {}], ["call_0", "call_1"]),
        ([{"name": "b"}, {}], ["call_1", "call_0"]),
        ([{"tool_call_id": "call_1"}, {"tool_call_id": "call_0"}], ["call_1", "call_0"]),
    ],
    ids=["by name", "in order", "by the older name", "by id"],
)
def test_each_answer_finds_its_call(answers: list[dict[str, Any]], ids: list[str]) -> None:
    """Answers of tools get the id of the call they answer."""
    calls = [ollama_call("a", {}), ollama_call("b", {})]
    messages = [
        {"role": "assistant", "content": "", "tool_calls": calls},
        *({"role": "tool", "content": "42", **answer} for answer in answers),
    ]
    translated = openai_messages({"messages": messages})
    assert [call["id"] for call in translated[0]["tool_calls"]] == ["call_0", "call_1"]
    assert [message["tool_call_id"] for message in translated[1:]] == ids


def test_given_ids_are_kept() -> None:
    """A client that sends ids sees them again on both sides."""
    call = {"id": "call_abc", **ollama_call("f", {"x": 1})}
    translated = openai_messages({"messages": [{"role": "assistant", "tool_calls": [call]}]})[0]
    assert translated["tool_calls"][0]["id"] == "call_abc"
    assert (ollama_tool_calls(translated["tool_calls"]) or [])[0]["id"] == "call_abc"


@pytest.mark.parametrize("arguments", ['{"city":"Par', "[1]", "3"])
def test_a_call_that_was_cut_off_is_no_call(arguments: str) -> None:
    """Arguments that are no JSON object cannot be Ollama's."""
    assert ollama_tool_calls([{"id": "1", "function": {"name": "f", "arguments": arguments}}]) is None


def test_a_call_without_arguments_has_empty_ones() -> None:
    """An empty arguments text is the empty object."""
    assert ollama_tool_calls([{"function": {"name": "f", "arguments": ""}}]) == [
        {"function": {"index": 0, "name": "f", "arguments": {}}}
    ]


def test_images_become_data_urls() -> None:
    """Images are embedded with their kind; no text of a client is ever an address to fetch."""
    parts = user_content("what is it", [PNG, base64.b64encode(b"http://evil.example/").decode()])
    assert isinstance(parts, list)
    assert parts[0] == {"type": "text", "text": "what is it"}
    urls = [part["image_url"]["url"] for part in parts[1:]]
    assert urls[0] == f"data:image/png;base64,{PNG}"
    assert all(url.startswith("data:image/") for url in urls)


@pytest.mark.parametrize("image", ["http://evil.example/x.png", "not base64!", 3, None])
def test_an_image_that_is_no_base64_is_refused(image: object) -> None:
    """Addresses, other text and other types are no images."""
    with pytest.raises(BadRequest, match="images"):
        user_content("x", [image])


def test_thinking_goes_back_as_reasoning() -> None:
    """What a model thought earlier is told again by OpenAI's name for it."""
    message = {"role": "assistant", "content": "a", "thinking": "b"}
    assert openai_messages({"messages": [message]})[0]["reasoning_content"] == "b"


@pytest.mark.parametrize(
    "messages",
    [
        "hello",
        [3],
        [{"content": "no role"}],
        [{"role": 3, "content": "x"}],
        [{"role": "user", "content": ["parts"]}],
        [{"role": "user", "content": "x", "images": "x"}],
        [{"role": "assistant", "tool_calls": [{}]}],
        [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "text"}}]}],
    ],
)
def test_messages_of_another_shape_are_refused(messages: object) -> None:
    """A wrong shape is a BadRequest."""
    with pytest.raises(BadRequest):
        openai_messages({"messages": messages})


def test_tools_pass_and_no_tools_vanish() -> None:
    """Ollama's Python client always sends tools, mostly an empty list."""
    tool = {"type": "function", "function": {"name": "f"}}
    assert openai_tools({"tools": [tool]}) == {"tools": [tool]}
    assert openai_tools({"tools": []}) == openai_tools({}) == {}


def test_arguments_are_compact_json() -> None:
    """The text of the arguments is JSON that keeps every character."""
    call = ollama_call("f", {"city": "Zürich"})
    message = openai_messages({"messages": [{"role": "assistant", "tool_calls": [call]}]})[0]
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"city": "Zürich"}

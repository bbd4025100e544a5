"""Which requests can go on elsewhere, and what the node is asked that goes on."""

import json
from typing import Any

import pytest

from pairproxy.core.dialects.continuing import BODY_BYTES, GOING_ON, continuable, is_plain_text

HELLO = [{"role": "user", "content": "hello"}]


def asked(path: str, **fields: Any) -> Any:
    """A request, if it can go on."""
    return continuable(path, json.dumps({"model": "m", "stream": True, **fields}).encode())


def rest(path: str, text: str, tokens: int, **fields: Any) -> dict[str, Any]:
    """What is asked after a text."""
    found = asked(path, **fields)
    assert found is not None
    return dict(json.loads(found.rest(text, tokens)))


def test_the_rest_of_a_chat_begins_the_assistants_message() -> None:
    """What was delivered is the last message; limits are lowered by it; the seed and all else stay."""
    body = rest("/v1/chat/completions", "Hi th", 2, messages=HELLO, max_tokens=10, seed=7, user="ann")
    assert body == {
        "model": "m", "stream": True, "seed": 7, "user": "ann", "max_tokens": 8,
        "messages": [*HELLO, {"role": "assistant", "content": "Hi th"}], **GOING_ON,
    }  # fmt: skip


def test_the_rest_of_an_ollama_chat_keeps_its_options() -> None:
    """num_predict is lowered, the window and the seed are what they were."""
    options = {"num_predict": 10, "num_ctx": 2048, "seed": 3}
    body = rest("/api/chat", "Hi", 4, messages=HELLO, options=options, keep_alive="5m", think=False)
    assert body["options"] == {"num_predict": 6, "num_ctx": 2048, "seed": 3}
    assert body["messages"][-1] == {"role": "assistant", "content": "Hi"}
    assert "add_generation_prompt" not in body
    assert body["keep_alive"] == "5m"


@pytest.mark.parametrize("prompt", ["Once", ["Once"]])
def test_the_rest_of_a_completion_stands_behind_its_prompt(prompt: Any) -> None:
    """A prompt that no template changes is followed by the text, also where it is a list of one."""
    assert rest("/v1/completions", " upon", 1, prompt=prompt)["prompt"] == "Once upon"
    assert rest("/api/generate", " upon", 1, prompt="Once", raw=True)["prompt"] == "Once upon"


def test_the_rest_of_a_templated_prompt_is_asked_for_as_a_chat() -> None:
    """The template would close the message: the same conversation goes to /api/chat."""
    found = asked("/api/generate", prompt="Why?", system="Be brief.", raw=False)
    assert found.rest_path == "/api/chat"
    assert json.loads(found.rest("Because", 1))["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "Because"},
    ]
    assert asked("/api/generate", prompt="Why?", raw=True).rest_path == "/api/generate"


def test_before_any_text_the_request_stays_as_it_was() -> None:
    """A reply of which nothing but its head was delivered begins anew, with no empty message."""
    assert rest("/v1/chat/completions", "", 0, messages=HELLO)["messages"] == HELLO


def test_a_limit_that_was_reached_leaves_one_token_for_the_last_record() -> None:
    """Engines take 0 for "no limit"."""
    assert rest("/v1/completions", "abc", 5, prompt="p", max_tokens=5)["max_tokens"] == 1
    assert rest("/v1/completions", "abc", 5, prompt="p", max_tokens=-1)["max_tokens"] == -1
    assert rest("/v1/completions", "abc", 2, prompt="p", max_tokens=5.0)["max_tokens"] == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "function"}]}, {"functions": [{"name": "f"}]}, {"format": "json"},
        {"response_format": {"type": "json_object"}}, {"grammar": "root ::= x"}, {"logprobs": True},
        {"top_logprobs": 2}, {"n": 2}, {"think": True}, {"reasoning_effort": "high"},
        {"guided_json": {"a": 1}},
        {"something_new": 1}, {"options": {"grammar": "x"}}, {"options": [1]}, {"messages": []},
        {"messages": [{"role": "user", "content": "a", "images": ["aGk="]}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]},
        {"messages": [{"role": "tool", "content": "a"}]}, {"messages": [{"role": "user"}]},
        {"messages": [*HELLO, {"role": "assistant", "content": "a", "tool_calls": [{"id": "1"}]}, *HELLO]},
        {"messages": [*HELLO, {"role": "assistant", "content": "He"}]},
        {"messages": "hello"}, {"messages": ["hello"]},
    ],
)  # fmt: skip
def test_what_is_more_than_plain_text_does_not_go_on(fields: dict[str, Any]) -> None:
    """Tools, enforced formats, probabilities, several replies, pictures, thinking, and what is not known."""
    for path in ("/api/chat", "/v1/chat/completions"):
        assert asked(path, **{"messages": HELLO, **fields}) is None


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"tools": []}, {"format": ""}, {"n": 1}, {"logprobs": False}, {"think": False},
        {"tool_choice": None},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]},
        {"messages": [{"role": "system", "content": "s"}, *HELLO, {"role": "assistant", "content": "a"},
                      *HELLO]},
    ],
)  # fmt: skip
def test_what_says_nothing_bars_nothing(fields: dict[str, Any]) -> None:
    """Fields that clients send empty, and text in parts, are plain text."""
    for path in ("/api/chat", "/v1/chat/completions"):
        assert asked(path, **{"messages": HELLO, **fields}) is not None


def test_other_paths_and_unreadable_bodies_do_not_go_on() -> None:
    """Only the four paths, JSON objects, and bodies of a bounded size."""
    assert continuable("/v1/responses", b'{"model":"m","input":"a"}') is None
    assert continuable("/api/chat", b"[]") is None
    assert continuable("/api/chat", b"{") is None
    assert continuable("/api/chat", b"[" * 100_000) is None
    assert continuable("/v1/completions", json.dumps({"prompt": "x" * BODY_BYTES}).encode()) is None
    assert asked("/v1/completions", prompt=[1, 2]) is None
    assert asked("/v1/completions", prompt=["a", "b"]) is None
    assert asked("/v1/completions", prompt="a", suffix="b") is None
    assert asked("/api/generate", prompt="a", template="{{ .Prompt }}") is None
    assert asked("/api/generate", prompt="a", context=[1]) is None


def test_thinking_within_a_text_is_no_plain_text() -> None:
    """Templates cut thoughts out of what a model is given back."""
    assert is_plain_text("a < b > c")
    assert not is_plain_text("<think>hm")
    assert not is_plain_text("hm</think>Yes")

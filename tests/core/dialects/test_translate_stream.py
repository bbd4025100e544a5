import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.dialects.translate_request import Call, Route
from pairproxy.core.dialects.translate_stream import EVENT_LIMIT_BYTES, ReplyStream

STAMP = "2026-11-29T12:00:00Z"
CHAT = Call(Route.CHAT, "M:1", "/v1/chat/completions", b"", is_streaming=True)
GENERATE = replace(CHAT, route=Route.GENERATE)
TIMINGS = {"cache_n": 24, "prompt_n": 8, "prompt_ms": 130.702, "predicted_n": 2, "predicted_ms": 18.927}
DONE = b"data: [DONE]\n\n"


def event(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def delta(fields: dict[str, Any], finish_reason: str | None = None) -> bytes:
    """One event of a chat."""
    return event({"choices": [{"finish_reason": finish_reason, "index": 0, "delta": fields}]})


HELLO = b"".join(
    [
        delta({"role": "assistant", "content": None}),
        delta({"content": "Grüß "}),
        b": ping\n\n",
        delta({"content": "dich\n"}),
        delta({}, "length"),
        event({"choices": [], "usage": {"prompt_tokens": 32}, "timings": TIMINGS}),
        DONE,
    ]
)
TOOLS = b"".join(
    [
        delta({"role": "assistant", "content": None}),
        delta({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]}),
        delta({"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]}),
        delta({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
        delta({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]}),
        delta({}, "tool_calls"),
        DONE,
    ]
)


def lines(pieces: list[bytes], call: Call = CHAT) -> list[bytes]:
    """What the client gets when the stream arrives in these pieces."""
    stream = ReplyStream(call)
    out = [line for piece in pieces for line in stream.feed(piece, STAMP, 0.25)]
    return out + stream.close(STAMP, 0.25)


def records(stream: bytes, call: Call = CHAT) -> list[dict[str, Any]]:
    """The lines of a whole stream, parsed."""
    out = lines([stream], call)
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in out)
    return [json.loads(line) for line in out]


def test_each_piece_of_text_is_a_line_and_the_last_has_the_numbers() -> None:
    """Text arrives piece by piece; the final record has reason, counts and nanoseconds."""
    first, second, final = records(HELLO)
    assert first == {
        "model": "M:1",
        "created_at": STAMP,
        "message": {"role": "assistant", "content": "Grüß "},
        "done": False,
    }
    assert second["message"]["content"] == "dich\n"
    assert final == {
        "model": "M:1",
        "created_at": STAMP,
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "length",
        "total_duration": 250_000_000,
        "prompt_eval_count": 32,
        "prompt_eval_duration": 130_702_000,
        "eval_count": 2,
        "eval_duration": 18_927_000,
    }


@given(st.sampled_from([HELLO, TOOLS, HELLO.replace(b"\n", b"\r\n")]), st.data())
def test_any_split_gives_the_same_lines(stream: bytes, data: st.DataObject) -> None:
    """Where the network cuts the stream makes no difference."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert lines(pieces) == lines([stream])


def test_byte_by_byte_is_the_same_too() -> None:
    """Even a cut within a character or a line end."""
    assert lines([bytes([byte]) for byte in HELLO]) == lines([HELLO])


def test_a_line_is_given_as_soon_as_its_event_is_there() -> None:
    """Nothing waits for the next event."""
    stream = ReplyStream(CHAT)
    assert stream.feed(delta({"content": "x"})[:-2], STAMP, 0.0) == []
    assert len(stream.feed(b"\n", STAMP, 0.0)) == 1


def test_tool_calls_are_told_whole() -> None:
    """The pieces of each call are joined, and all are told before the final record."""
    calls, final = records(TOOLS)
    assert calls["message"] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "a", "function": {"index": 0, "name": "f", "arguments": {"x": 1}}},
            {"id": "b", "function": {"index": 1, "name": "g", "arguments": {}}},
        ],
    }
    assert (final["done"], final["done_reason"]) == (True, "stop")


def test_a_bare_completion_says_response() -> None:
    """/v1/completions has text and puts its timings into the event with the reason."""
    stream = b"".join(
        [
            event({"choices": [{"text": "Hi", "index": 0, "finish_reason": None}]}),
            event({"choices": [{"text": "", "index": 0, "finish_reason": "stop"}], "timings": TIMINGS}),
            DONE,
        ]
    )
    first, final = records(stream, GENERATE)
    assert (first["response"], first["done"]) == ("Hi", False)
    assert (final["response"], final["done_reason"], final["eval_count"]) == ("", "stop", 2)


def test_thinking_is_told_apart() -> None:
    """Reasoning arrives as thinking, on both routes."""
    stream = delta({"reasoning_content": "hm"}) + delta({}, "stop") + DONE
    assert records(stream)[0]["message"] == {"role": "assistant", "content": "", "thinking": "hm"}
    assert records(stream, GENERATE)[0]["thinking"] == "hm"


@pytest.mark.parametrize(
    "trouble",
    [
        event({"error": {"code": 500, "message": "out of memory", "type": "server_error"}}),
        b'error: {"message": "out of memory"}\n\n',
    ],
)
def test_an_error_in_the_middle_is_the_last_line(trouble: bytes) -> None:
    """Ollama's clients raise on a line with an error; nothing follows it."""
    told = records(delta({"content": "x"}) + trouble + delta({"content": "y"}) + DONE)
    assert [record.get("error") for record in told] == [None, "out of memory"]


def test_a_stream_that_breaks_off_ends_with_an_error() -> None:
    """Without reason and end mark the reply is not complete, and the client is told."""
    told = records(delta({"content": "x"}))
    assert "complete" in told[-1]["error"]
    assert not any(record.get("done") for record in told)


def test_a_stream_without_end_mark_but_with_reason_is_complete() -> None:
    """The reason is what counts."""
    assert records(delta({"content": "x"}) + delta({}, "stop"))[-1]["done_reason"] == "stop"


@pytest.mark.parametrize(
    "junk",
    [
        b"data: {not json\n\n",
        event([]),
        event({"choices": 3}),
        event({"nothing": 1}),
        delta({"tool_calls": [{"index": "x"}]}),
        delta({"content": float("nan")}),
        delta({}, "stop") + event({"choices": [], "timings": {"prompt_n": "x"}}) + DONE,
    ],
)
def test_junk_is_an_error_line(junk: bytes) -> None:
    """What is no OpenAI stream never raises."""
    told = records(junk)
    assert len(told) == 1
    assert "error" in told[0]


def test_an_event_without_end_is_given_up() -> None:
    """The memory for one event is bounded."""
    stream = ReplyStream(CHAT)
    told = stream.feed(b"data: " + b"x" * EVENT_LIMIT_BYTES, STAMP, 0.0)
    assert len(told) == 1
    assert stream.is_done
    assert stream.failure is not None
    assert stream.feed(HELLO, STAMP, 0.0) == []

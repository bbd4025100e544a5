"""The streams that end with a record of their own, each in every split."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.dialects.meter import END_LINES, ROOM_BYTES, SHORT_TAIL_BYTES, TAIL_BYTES, Meter
from pairproxy.core.models import Dialect, Outcome, Usage
from tests.core.dialects.test_meter import (
    DONE,
    EVENT,
    EVENT_TIMINGS,
    EVENT_USAGE,
    OLLAMA_END,
    OLLAMA_PART,
    metered,
)


def named(name: str, **fields: object) -> bytes:
    """An event with a name, as Anthropic, OpenAI's responses and LM Studio's chat have them."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


ANTHROPIC = (
    named("message_start", message={"usage": {"input_tokens": 10, "cache_read_input_tokens": 16}})
    + named("content_block_delta", delta={"type": "text_delta", "text": "a\nevent: error\n"}) * 3
    + named("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 40})
)
ANTHROPIC_END = named("message_stop")
RESPONSES = named("response.created", response={}) + named("response.output_text.delta", delta="a") * 3
RESPONSES_USAGE = {"input_tokens": 26, "input_tokens_details": {"cached_tokens": 16}, "output_tokens": 40}
STUDIO = named("chat.start") + named("message.delta", content="a") * 3
STUDIO_STATS = {
    "input_tokens": 26, "total_output_tokens": 40, "tokens_per_second": 50.0,
    "time_to_first_token_seconds": 0.25, "model_load_time_seconds": 1.5,
}  # fmt: skip
STUDIO_END = named("chat.end", result={"stats": STUDIO_STATS})
LLAMA = b'data: {"content":"a","stop":false}\n\n'
LLAMA_END = (
    b'data: {"content":"","stop":true,"tokens_predicted":40,"tokens_evaluated":26,"stop_type":"eos",'
    b'"timings":{"cache_n":16,"prompt_n":10,"prompt_ms":250.0,"predicted_n":40,"predicted_ms":800.0}}\n\n'
)


def answered(end: str) -> bytes:
    """The event with which a response ends."""
    return named(end, response={"output": [], "usage": RESPONSES_USAGE})


@pytest.mark.parametrize(
    ("dialect", "body", "usage"),
    [
        (Dialect.ANTHROPIC, ANTHROPIC + ANTHROPIC_END, Usage(26, 16, 40)),
        (Dialect.ANTHROPIC, ANTHROPIC + ANTHROPIC_END + DONE, Usage(26, 16, 40)),
        (Dialect.RESPONSES, RESPONSES + answered("response.completed"), Usage(26, 16, 40)),
        (Dialect.RESPONSES, RESPONSES + answered("response.incomplete"), Usage(26, 16, 40)),
        (Dialect.LMSTUDIO, STUDIO + STUDIO_END, Usage(26, None, 40, 0.25, 0.8, 1.5)),
        (Dialect.LLAMACPP, LLAMA * 3 + LLAMA_END, Usage(26, 16, 40, 0.25, 0.8)),
        (Dialect.LLAMACPP, LLAMA * 3 + EVENT_TIMINGS + DONE, Usage(26, 16, 40, 0.25, 0.8, 1.5)),
    ],
)
@settings(deadline=None)
@given(step=st.integers(1, 400), newline=st.sampled_from([b"\n", b"\r\n"]))
def test_each_stream_ends_as_its_format_says(
    dialect: Dialect, body: bytes, usage: Usage, step: int, newline: bytes
) -> None:
    """Its last record tells the end and the counts, in any split; any less of it is truncated."""
    body = body.replace(b"\n", newline)
    assert metered(dialect, body, step=step) == (Outcome.DONE, usage)
    assert metered(dialect, body, step=step, streaming=False) == (Outcome.DONE, usage)  # as its bytes show
    assert metered(dialect, body, step=step, complete=False)[0] is Outcome.TRUNCATED
    cut = body.removesuffix(DONE.replace(b"\n", newline))[: -len(newline) * 2 - 1]
    assert metered(dialect, cut, step=step)[0] is Outcome.TRUNCATED


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (Dialect.ANTHROPIC, ANTHROPIC),
        (Dialect.ANTHROPIC, ANTHROPIC + b"event: message_stop\n"),
        (Dialect.ANTHROPIC, ANTHROPIC + b'data: {"type":"message_stop"}\n\n'),
        (Dialect.RESPONSES, RESPONSES),
        (Dialect.RESPONSES, RESPONSES + DONE),
        (Dialect.LMSTUDIO, STUDIO),
        (Dialect.LLAMACPP, LLAMA * 3),
        (Dialect.ANTHROPIC, b""),
    ],
)
@settings(deadline=None)
@given(step=st.integers(1, 400))
def test_a_stream_of_named_events_without_its_last_one_is_truncated(
    dialect: Dialect, body: bytes, step: int
) -> None:
    """This is how Ollama's own failures look on /v1/messages and /v1/responses."""
    assert metered(dialect, body, step=step)[0] is Outcome.TRUNCATED


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (Dialect.ANTHROPIC, ANTHROPIC + named("error", error={"type": "overloaded_error"})),
        (Dialect.RESPONSES, RESPONSES + answered("response.failed")),
        (Dialect.RESPONSES, RESPONSES + named("error", message="x")),
        (Dialect.LMSTUDIO, STUDIO + named("error", error={"type": "unknown"}) + STUDIO_END),
        (Dialect.LLAMACPP, LLAMA + b'data: {"error":{"code":500,"message":"x"}}\n\n'),
        (Dialect.LLAMACPP, LLAMA + b'error: {"code":500,"message":"x"}\n\n'),
        (Dialect.OPENAI, EVENT + b'data: {"error":{"message":"it broke"}}\n\n' + DONE),
        (Dialect.OPENAI, b'{"error":"Unexpected endpoint or method. (POST /chat/completions)"}'),
        (Dialect.LMSTUDIO, b'{"error":{"type":"model_not_found","message":"x"}}'),
    ],
)
@settings(deadline=None)
@given(step=st.integers(1, 400))
def test_an_error_in_a_stream_is_one_whatever_follows(dialect: Dialect, body: bytes, step: int) -> None:
    """Some formats end in good order after it; LM Studio calls even an unknown path a success."""
    assert metered(dialect, body, step=step)[0] is Outcome.ERROR


def test_a_last_record_of_any_length_is_known() -> None:
    """Ollama's ends with the context, llama-server's with the prompt: their beginning is not kept."""
    context = b'"context":[' + b"1," * TAIL_BYTES + b'1],"total_duration":3'
    ollama = OLLAMA_PART + OLLAMA_END.replace(b'"total_duration":3', context)
    assert metered(Dialect.OLLAMA, ollama, step=5000) == (Outcome.DONE, Usage(26, None, 40, 0.25, 0.8, 1.5))
    assert metered(Dialect.OLLAMA, ollama[:-90], step=5000)[0] is Outcome.TRUNCATED
    llama = LLAMA_END.replace(b'"stop_type"', b'"prompt":"' + b"x" * 2 * TAIL_BYTES + b'","stop_type"')
    assert metered(Dialect.LLAMACPP, LLAMA + llama, step=5000)[0] is Outcome.DONE
    response = answered("response.completed").replace(b"[]", b'["' + b"x" * 2 * TAIL_BYTES + b'"]')
    assert metered(Dialect.RESPONSES, RESPONSES + response, step=5000) == (Outcome.DONE, Usage(26, 16, 40))


@pytest.mark.parametrize(
    ("dialect", "kept"), [(Dialect.OPENAI, SHORT_TAIL_BYTES), (Dialect.LMSTUDIO, TAIL_BYTES)]
)
def test_little_is_kept_of_a_long_stream(dialect: Dialect, kept: int) -> None:
    """Of one whose records are short a tenth: a thousand of them run at once."""
    meter = Meter(dialect, True, 200)
    for _ in range(4 * TAIL_BYTES // len(EVENT)):
        meter.feed(EVENT)
    grown = max(kept // 2, ROOM_BYTES)
    assert kept <= len(meter._tail) <= kept + grown + 5 * len(EVENT)


@pytest.mark.parametrize("size", [SHORT_TAIL_BYTES // 2, 2 * SHORT_TAIL_BYTES, TAIL_BYTES - 100])
@pytest.mark.parametrize("step", [100, 5000, 100_000])
def test_a_long_error_is_one(size: int, step: int) -> None:
    """Ollama's tells all that a model wrote where it should have called a tool."""
    line = json.dumps({"error": "x" * size}).encode() + b"\n"
    assert metered(Dialect.OLLAMA, OLLAMA_PART * 200 + line, step=step)[0] is Outcome.ERROR
    assert (
        metered(Dialect.OPENAI, EVENT * 200 + b"data: " + line + b"\n" + DONE, step=step)[0] is Outcome.ERROR
    )


def test_an_event_is_known_that_is_gone_from_the_tail() -> None:
    """An error is one, and the last event is the last, however long what follows is."""
    long = named("response.output_text.delta", delta="x" * 700) * 300
    assert metered(Dialect.RESPONSES, named("error") + long + DONE, step=5000)[0] is Outcome.ERROR
    pings = b": ping\n\n" * TAIL_BYTES
    done = RESPONSES + answered("response.completed") + pings + DONE
    assert metered(Dialect.RESPONSES, done, step=5000)[0] is Outcome.DONE


@pytest.mark.parametrize("after", range(END_LINES // 2))
def test_the_usage_is_among_the_last_events(after: int) -> None:
    """Whatever follows it: what is far from the end is text, and would be read for nothing."""
    body = EVENT * 200 + EVENT_USAGE + EVENT * after + DONE
    assert metered(Dialect.OPENAI, body, step=100)[1] == Usage(26, 10, 40)


@settings(deadline=None)
@given(
    body=st.binary(max_size=300)
    | st.lists(st.sampled_from([ANTHROPIC, ANTHROPIC_END, RESPONSES, STUDIO_END, OLLAMA_END, DONE])).map(
        b"".join
    ),
    dialect=st.sampled_from(list(Dialect)),
    streaming=st.booleans(),
    cuts=st.lists(st.integers(0, 3000), max_size=6),
)
def test_no_reply_is_too_odd(body: bytes, dialect: Dialect, streaming: bool, cuts: list[int]) -> None:
    """Whatever comes, in whatever pieces: the same answer, and never an exception."""
    meter = Meter(dialect, streaming, 200)
    for start, end in itertools.pairwise(sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})):
        meter.feed(body[start:end])
    whole = metered(dialect, body, streaming=streaming, step=max(len(body), 1))
    assert (meter.outcome(True), meter.usage()) == whole

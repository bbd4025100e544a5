import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.dialects.meter import TAIL_BYTES, Meter
from pairproxy.core.models import Dialect, Outcome, Usage

OLLAMA_END = (
    b'{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",'
    b'"total_duration":3000000000,"load_duration":1500000000,"prompt_eval_count":26,'
    b'"prompt_eval_duration":250000000,"eval_count":40,"eval_duration":800000000}\n'
)
OLLAMA_PART = b'{"model":"m","message":{"role":"assistant","content":"a"},"done":false}\n'
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}\n\n'
EVENT_END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
EVENT_USAGE = (
    b'data: {"choices":[],"usage":{"completion_tokens":40,"prompt_tokens":26,"total_tokens":66,'
    b'"prompt_tokens_details":{"cached_tokens":10}}}\n\n'
)
EVENT_TIMINGS = (
    b'data: {"choices":[],"timings":{"cache_n":16,"prompt_n":10,"prompt_ms":250.0,"predicted_n":40,'
    b'"predicted_ms":800.0,"load_ms":1500.0}}\n\n'
)
DONE = b"data: [DONE]\n\n"


def metered(
    dialect: Dialect,
    body: bytes,
    *,
    streaming: bool = True,
    status: int = 200,
    complete: bool = True,
    step: int = 7,
) -> tuple[Outcome, Usage]:
    """Outcome and usage of a reply that came in pieces of ``step`` bytes, or as well in one."""
    found = []
    for size in (step, max(len(body), 1)):
        meter = Meter(dialect, streaming, status)
        for start in range(0, len(body), size):
            meter.feed(body[start : start + size])
        assert meter.size_bytes == len(body)
        found.append((meter.outcome(complete), meter.usage()))
        assert found[-1] == (meter.outcome(complete), meter.usage())
    assert found[0] == found[1]
    return found[0]


@settings(deadline=None)
@given(step=st.integers(1, 400))
def test_the_split_of_the_bytes_does_not_matter(step: int) -> None:
    """However the network cuts a reply, the meter reads the same of it."""
    ollama, openai = OLLAMA_PART * 3 + OLLAMA_END, EVENT * 5 + EVENT_END + DONE
    assert metered(Dialect.OLLAMA, ollama, step=step) == metered(Dialect.OLLAMA, ollama)
    assert metered(Dialect.OPENAI, openai, step=step) == (Outcome.DONE, Usage(output_tokens=5))


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (b'{"text":"hello"}', Outcome.DONE),
        (b"hello", Outcome.DONE),
        (b'[{"embedding":[[1.0]]}]', Outcome.DONE),
        (b'[{"embedding":[[1.0', Outcome.TRUNCATED),
        (b'{"text":"he', Outcome.TRUNCATED),
        (b'{"text":"' + b"he" * (TAIL_BYTES // 2 + 99), Outcome.TRUNCATED),
        (b' {"text":"hello"} \n', Outcome.DONE),
        (b"", Outcome.DONE),
    ],
)
def test_one_document_is_done_when_it_is_closed(body: bytes, outcome: Outcome) -> None:
    """A transcription may be plain text, whose end only the framing knows."""
    assert metered(Dialect.OPENAI, body, streaming=False)[0] is outcome


@pytest.mark.parametrize("usage", [b'{"prompt_tokens":26}', b'{"prompt_tokens":26,"completion_tokens":40}'])
@pytest.mark.parametrize("more", [0, 3000, 2 * TAIL_BYTES])
def test_a_long_document_tells_its_usage_at_either_end_of_its_tail(usage: bytes, more: int) -> None:
    """Embeddings have no output, and some servers write probabilities behind the usage."""
    before, behind = b"0.25," * (more // 5), b"7," * (min(more, TAIL_BYTES // 2) // 2)
    body = b'{"data":[' + before + b'1],"usage":' + usage + b',"logprobs":[' + behind + b"1]}"
    outcome, said = metered(Dialect.OPENAI, body, streaming=False, step=5000)
    output = 40 if b"completion" in usage else None
    assert (outcome, said) == (Outcome.DONE, Usage(26, None, output))


def test_lm_studio_tells_its_times_in_seconds() -> None:
    """On /api/v0, beside OpenAI's usage."""
    body = (
        b'{"choices":[],"usage":{"prompt_tokens":26,"completion_tokens":40},'
        b'"stats":{"tokens_per_second":50.0,"time_to_first_token":0.25,"generation_time":0.8}}'
    )
    assert metered(Dialect.OPENAI, body, streaming=False) == (Outcome.DONE, Usage(26, None, 40, 0.25, 0.8))


@pytest.mark.parametrize("streaming", [True, False])
def test_ollama_tells_counts_and_nanoseconds(streaming: bool) -> None:
    """The last record of a stream, and the only one of a reply that is not, hold them all."""
    body = OLLAMA_PART * (3 if streaming else 0) + OLLAMA_END
    assert metered(Dialect.OLLAMA, body, streaming=streaming) == (
        Outcome.DONE,
        Usage(26, None, 40, 0.25, 0.8, 1.5),
    )


def test_openai_tells_its_usage_when_asked() -> None:
    """In a record of its own before the end."""
    body = EVENT * 40 + EVENT_END + EVENT_USAGE + DONE
    assert metered(Dialect.OPENAI, body) == (Outcome.DONE, Usage(26, 10, 40))


def test_llama_cpp_tells_its_timings_always() -> None:
    """They count the cached part of the prompt apart, in milliseconds."""
    body = EVENT * 3 + EVENT_TIMINGS + DONE
    assert metered(Dialect.OPENAI, body)[1] == Usage(26, 16, 40, 0.25, 0.8, 1.5)


@pytest.mark.parametrize(
    ("dialect", "body", "records"),
    [
        (Dialect.OLLAMA, OLLAMA_PART * 3 + OLLAMA_END, 4),
        (Dialect.OPENAI, EVENT * 5 + EVENT_END + DONE, 7),
        (Dialect.ANTHROPIC, b'event: ping\ndata: {"type":"ping"}\n\n' * 5, 5),
    ],
)
def test_a_stream_tells_in_how_many_records_it_came(dialect: Dialect, body: bytes, records: int) -> None:
    """A call of a tool comes in a few, after all its tokens were made; a reply in one piece tells nothing."""
    assert metered(dialect, body)[1].records == records
    assert metered(Dialect.OPENAI, b'{"usage":{"completion_tokens":40}}', streaming=False)[1].records is None


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_stream_that_does_not_count_is_counted(newline: bytes) -> None:
    """One token for each event that may hold one, whatever ends its lines."""
    body = (EVENT * 12 + EVENT_END + DONE).replace(b"\n", newline)
    assert metered(Dialect.OPENAI, body)[1] == Usage(output_tokens=12)
    assert metered(Dialect.OPENAI, EVENT_END + DONE)[1] == Usage()


@pytest.mark.parametrize(
    ("dialect", "streaming", "body"),
    [
        (Dialect.OLLAMA, True, OLLAMA_PART * 3),
        (Dialect.OLLAMA, True, OLLAMA_PART + OLLAMA_END[:-30]),
        (Dialect.OPENAI, True, EVENT * 3),
        (Dialect.OPENAI, True, EVENT * 3 + b"data: [DON"),
        (Dialect.OPENAI, False, b'{"choices":[{"message":{"content":"a'),
        (Dialect.OLLAMA, True, b""),
    ],
)
def test_a_reply_without_its_terminal_record_is_truncated(
    dialect: Dialect, streaming: bool, body: bytes
) -> None:
    """Also when the HTTP message ended as it should."""
    assert metered(dialect, body, streaming=streaming)[0] is Outcome.TRUNCATED


def test_a_message_that_broke_off_is_truncated() -> None:
    """Whatever its last record says."""
    assert metered(Dialect.OLLAMA, OLLAMA_END, complete=False)[0] is Outcome.TRUNCATED
    assert metered(Dialect.OLLAMA, b'{"error":"x"}', status=500, complete=False)[0] is Outcome.TRUNCATED


@pytest.mark.parametrize(
    ("dialect", "streaming", "status", "body"),
    [
        (Dialect.OLLAMA, True, 200, OLLAMA_PART + b'{"error":"it broke"}\n'),
        (Dialect.OPENAI, True, 200, EVENT + b'data: {"error":{"message":"it broke"}}\n\n'),
        (Dialect.OPENAI, False, 404, b'{"error":{"message":"no such model"}}'),
        (Dialect.OLLAMA, True, 500, b"Internal Server Error"),
    ],
)
def test_the_engines_own_error_is_one(dialect: Dialect, streaming: bool, status: int, body: bytes) -> None:
    """By its status, or as the last record of a stream that began well."""
    assert metered(dialect, body, streaming=streaming, status=status)[0] is Outcome.ERROR


def test_an_error_that_is_null_is_none() -> None:
    """Some servers write the field always."""
    assert metered(Dialect.OPENAI, b'{"error": null, "choices": []}', streaming=False)[0] is Outcome.DONE


def test_what_a_model_writes_is_not_believed() -> None:
    """Neither as the text of a reply nor as the arguments of a tool is a count or an end a real one."""
    text = json.dumps({"message": {"content": '"done":true,"eval_count":9,"load_duration":1'}, "done": False})
    tool = json.dumps(
        {"message": {"tool_calls": [{"function": {"arguments": {"done": True}}}]}, "done": False}
    )
    for record in (text, tool):
        outcome, usage = metered(Dialect.OLLAMA, record.encode() + b"\n")
        assert (outcome, usage) == (Outcome.TRUNCATED, Usage())
    event = b"data: " + json.dumps({"delta": {"content": '"completion_tokens": 9'}}).encode() + b"\n\n"
    assert metered(Dialect.OPENAI, event * 4 + DONE)[1] == Usage(output_tokens=3)


@pytest.mark.parametrize("number", [b"-5", b"1e999", b"1e", b"99999999999999999999"])
def test_numbers_that_cannot_be_are_not_known(number: bytes) -> None:
    """A count is a number that a reply can have."""
    assert metered(Dialect.OLLAMA, b'{"done":true,"eval_count":' + number + b"}\n")[1].output_tokens is None


def test_a_long_reply_keeps_a_bounded_tail() -> None:
    """Megabytes pass, the end is remembered."""
    body = OLLAMA_PART * (4 * TAIL_BYTES // len(OLLAMA_PART)) + OLLAMA_END
    assert metered(Dialect.OLLAMA, body, step=5000)[1].output_tokens == 40


@pytest.mark.parametrize(
    ("dialect", "part", "streaming", "status", "written"),
    [
        (Dialect.OLLAMA, OLLAMA_PART, True, 200, 3),
        (Dialect.OPENAI, EVENT, True, 200, 3),
        (Dialect.ANTHROPIC, b"event: content_block_delta\ndata: {}\n\n", True, 200, 3),
        (Dialect.OPENAI, b'{"choices":\n[{"message":\n', False, 200, 0),
        (Dialect.OLLAMA, b'{"error":\n\n', True, 500, 0),
    ],
)
def test_what_came_so_far_is_told_while_it_comes(
    dialect: Dialect, part: bytes, streaming: bool, status: int, written: int
) -> None:
    """One for each record; of a body in one piece, or of an error, nothing."""
    meter = Meter(dialect, streaming, status)
    assert meter.written() == 0
    for _ in range(3):
        meter.feed(part)
    assert meter.written() == written

import base64
import struct
from typing import Any

import pytest

from pairproxy.core.errors import BadRequest
from pairproxy.engines.paced_gpu import Prefill
from pairproxy.engines.paced_reply import (
    CONTEXT_TOKENS,
    DEFAULT_OUTPUT_TOKENS,
    EMBEDDING_LENGTH,
    Question,
    embedding,
    embedding_texts,
    read_question,
    timings,
    usage,
)


def chat(text: str, **body: Any) -> Question:
    """A chat of one message."""
    return read_question({"messages": [{"role": "user", "content": text}], **body}, is_chat=True)


@pytest.mark.parametrize(
    ("question", "tokens", "reason"),
    [
        (chat("hi"), DEFAULT_OUTPUT_TOKENS, "stop"),
        (chat("hi", max_tokens=7), 7, "length"),
        (chat("hi", max_completion_tokens=7), 7, "length"),
        (chat("hi", n_predict=7), 7, "length"),
        (chat("hi", max_tokens=500), 500, "length"),
        (chat("hi", max_tokens=-1), DEFAULT_OUTPUT_TOKENS, "stop"),
        (chat("hi", max_tokens=0), 1, "length"),
        (chat("answer in 9 tokens"), 9, "stop"),
        (chat("answer in 9 tokens", max_tokens=5), 5, "length"),
        (chat("answer in 9 tokens", max_tokens=50), 9, "stop"),
        (chat("answer in 9 tokens", max_tokens=50, ignore_eos=True), 50, "length"),
        (chat("answer in 999999 tokens"), CONTEXT_TOKENS - 8, "length"),
    ],
)
def test_how_long_a_reply_is(question: Question, tokens: int, reason: str) -> None:
    """The client's limit, else the length its prompt asks for, else the default."""
    assert (question.output_tokens, question.finish_reason) == (tokens, reason)
    assert len(list(question.words())) == tokens


def test_the_text_depends_on_the_prompt_alone() -> None:
    """The same prompt gets the same text, another prompt another."""
    text = "".join(chat("one", max_tokens=20).words())
    assert text == "".join(chat("one", max_tokens=20).words())
    assert text != "".join(chat("two", max_tokens=20).words())


def test_a_conversation_begins_with_what_was_said() -> None:
    """The prompt of the next turn starts with the prompt of the last."""
    first = [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]
    later = [
        *first,
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [{"type": "text", "text": "c"}]},
    ]
    one, two = (read_question({"messages": messages}, is_chat=True).prompt for messages in (first, later))
    assert two.startswith(one)
    assert two.endswith("c\n")


@pytest.mark.parametrize(
    ("body", "is_chat"),
    [
        ({}, True),
        ({"messages": 3}, True),
        ({"messages": ["x"]}, True),
        ({"messages": [], "max_tokens": "x"}, True),
        ({"messages": [{"role": "user", "content": "x" * 4 * CONTEXT_TOKENS}]}, True),
        ({}, False),
        ({"prompt": ["a", "b"]}, False),
    ],
)
def test_a_wrong_body_is_refused(body: dict[str, Any], is_chat: bool) -> None:
    """A wrong shape, or a prompt beyond the window."""
    with pytest.raises(BadRequest):
        read_question(body, is_chat=is_chat)


def test_timings_add_up() -> None:
    """Milliseconds and rates agree, usage counts the cached part too, load_ms only when there was one."""
    read = Prefill(cached_tokens=16, new_tokens=100, seconds=0.5)
    told = timings(read, 10, 0.25, 0.0)
    assert (told["cache_n"], told["prompt_n"], told["prompt_ms"], told["prompt_per_second"]) == (
        16,
        100,
        500,
        200,
    )
    assert (told["predicted_n"], told["predicted_ms"], told["predicted_per_second"]) == (10, 250, 40)
    assert "load_ms" not in told
    assert timings(read, 10, 0.25, 1.5)["load_ms"] == 1500
    assert usage(read, 10)["total_tokens"] == 126


def test_embeddings_have_length_one() -> None:
    """A vector depends on its text, as numbers and as base64 alike."""
    vector = embedding("a", as_base64=False)
    assert isinstance(vector, list)
    assert sum(number * number for number in vector) == pytest.approx(1.0)
    assert vector != embedding("b", as_base64=False)
    packed = embedding("a", as_base64=True)
    assert isinstance(packed, str)
    assert struct.unpack(f"<{EMBEDDING_LENGTH}f", base64.b64decode(packed)) == pytest.approx(vector)


@pytest.mark.parametrize("given", [None, [], 3, [3], {}])
def test_only_texts_are_embedded(given: object) -> None:
    """Numbers and nothing are refused."""
    with pytest.raises(BadRequest):
        embedding_texts({"input": given})


def test_pieces_are_the_same_words() -> None:
    """One token first, so that the first comes when it is due; then so many at a time; nothing is lost."""
    question = chat("one", max_tokens=20)
    pieces = list(question.pieces(8))
    assert [count for _, count in pieces] == [1, 8, 8, 3]
    assert "".join(text for text, _ in pieces) == "".join(question.words())


@pytest.mark.parametrize("count", [1, 4, 8])
def test_it_goes_on_with_the_beginning_of_a_reply(count: int) -> None:
    """A last message of the assistant, or its words behind a prompt: the rest of the words, and no more."""
    asked = {"role": "user", "content": "answer in 9 tokens"}
    words = list(chat("answer in 9 tokens").words())
    begun = {"role": "assistant", "content": "".join(words[:count])}
    rest = read_question({"messages": [asked, begun]}, is_chat=True)
    assert list(rest.words()) == words[count:]
    plain = read_question({"prompt": "answer in 9 tokens: "}, is_chat=False)
    words = list(plain.words())
    later = read_question({"prompt": "answer in 9 tokens: " + "".join(words[:count])}, is_chat=False)
    assert list(later.words()) == words[count:]

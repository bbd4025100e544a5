"""One reply in several parts, cut at any byte: its client reads the reply of one node."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.dialects.continuing import TEXT_BYTES, continuable
from pairproxy.core.dialects.splicing import RECORD_BYTES, Splicer
from pairproxy.core.errors import ReplyTruncated

WORDS = ["Why", " is", " the", ' "sky"', "\n", " blau", "ü", "?", " \u2028", " a\\b"]
PROMPT = 20  # tokens

Reply = Callable[[str, list[str], int], bytes]


def line(record: dict[str, Any]) -> bytes:
    """A record of Ollama's."""
    return json.dumps(record).encode() + b"\n"


def event(record: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(record, ensure_ascii=False).encode() + b"\n\n"


def ollama_chat(name: str, words: list[str], prompt: int) -> bytes:
    """What Ollama sends for /api/chat."""
    said = [
        {"model": "m", "message": {"role": "assistant", "content": word}, "done": False} for word in words
    ]
    last = {
        "model": "m",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
    }
    counts = {"prompt_eval_count": prompt, "eval_count": len(words)}
    return b"".join(map(line, [*said, {**last, **counts}]))


def ollama_generate(name: str, words: list[str], prompt: int) -> bytes:
    """What Ollama sends for a raw prompt."""
    said = [{"model": "m", "response": word, "done": False} for word in words]
    counts = {"prompt_eval_count": prompt, "eval_count": len(words)}
    return b"".join(
        map(line, [*said, {"model": "m", "response": "", "done": True, "done_reason": "stop", **counts}])
    )


def openai_chat(name: str, words: list[str], prompt: int) -> bytes:
    """What llama.cpp sends for /v1/chat/completions."""
    about = {"id": name, "created": len(name), "model": "m", "object": "chat.completion.chunk"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    deltas += [{"content": word} for word in words]
    said = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}], **about} for delta in deltas]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **about}
    used = {"prompt_tokens": prompt, "completion_tokens": len(words), "total_tokens": prompt + len(words)}
    counted = {"choices": [], **about, "usage": used}
    return b": hello\n\n" + b"".join(map(event, [*said, last, counted])) + b"data: [DONE]\n\n"


def openai_text(name: str, words: list[str], prompt: int) -> bytes:
    """What servers send for /v1/completions."""
    about = {"id": name, "created": len(name), "model": "m", "object": "text_completion"}
    said = [{"choices": [{"index": 0, "text": word, "finish_reason": None}], **about} for word in words]
    used = {"prompt_tokens": prompt, "completion_tokens": len(words), "total_tokens": prompt + len(words)}
    last = {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}], **about, "usage": used}
    return b"".join(map(event, [*said, last])) + b"data: [DONE]\n\n"


HELLO = {"messages": [{"role": "user", "content": "hello"}]}
KINDS: dict[str, tuple[str, dict[str, Any], Reply, Reply]] = {
    "chat": ("/api/chat", HELLO, ollama_chat, ollama_chat),
    "raw": ("/api/generate", {"prompt": "p", "raw": True}, ollama_generate, ollama_generate),
    "generate": ("/api/generate", {"prompt": "p"}, ollama_generate, ollama_chat),
    "completions": ("/v1/completions", {"prompt": "p"}, openai_text, openai_text),
    "chat.completions": ("/v1/chat/completions", HELLO, openai_chat, openai_chat),
}


def splicer(kind: str, **fields: Any) -> Splicer:
    """A splicer for a request of this kind."""
    path, asked, _, _ = KINDS[kind]
    found = continuable(path, json.dumps({"model": "m", **asked, **fields}).encode())
    assert found is not None
    return Splicer(found, 0.0)


def fed(one: Splicer, data: bytes, step: int) -> bytes:
    """What the client gets of data that comes in pieces."""
    return b"".join(one.feed(data[at : at + step], 1.0) for at in range(0, len(data), step))


def text_of(body: bytes) -> str:
    """The text that a client reads."""
    text = ""
    for raw in body.splitlines() if body.startswith(b"{") else body.split(b"\n"):
        data = raw.removeprefix(b"data: ")
        if not data.startswith(b"{"):
            continue
        record = json.loads(data)
        for choice in record.get("choices", []):
            text += choice.get("text") or choice.get("delta", {}).get("content") or ""
        text += record.get("message", {}).get("content", "") + record.get("response", "")
    return text


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_cut_anywhere_it_is_the_reply_of_one_node(kind: str, data: st.DataObject) -> None:
    """F6: whatever the last byte of the first node, the whole is what one would have sent, by the record."""
    _, _, first, later = KINDS[kind]
    words = data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8))
    whole = first("one", words, PROMPT)
    cut = data.draw(st.integers(0, len(whole)))
    one = splicer(kind)
    body = fed(one, whole[:cut], data.draw(st.integers(1, 50)))
    assert whole.startswith(body)
    tokens = one.delivered
    if one.is_complete:
        assert tokens is None
        assert body + one.end(2.0) == whole
        return
    assert tokens is not None
    delivered = text_of(body)
    assert delivered == "".join(words[:tokens])
    rest = json.loads(one.rest())
    given_back = rest.get("prompt", "p")[1:] or (rest.get("messages") or [{}])[-1].get("content", "")
    assert delivered in {given_back, ""}
    one.go_on(2.0)
    later = later if one.is_begun else first
    body += fed(
        one,
        later("two" if one.is_begun else "one", words[tokens:], PROMPT + tokens),
        data.draw(st.integers(1, 50)),
    ) + one.end(3.0)
    assert one.is_complete
    assert _read(body) == _read(whole)


def _read(body: bytes) -> list[Any]:
    """The records of a reply, without what is no record (comments, empty lines)."""
    lines = [one.removeprefix(b"data: ") for one in body.split(b"\n")]
    return [json.loads(one) if one.startswith(b"{") else one for one in lines if one and one[:1] != b":"]


@pytest.mark.parametrize("kind", KINDS)
@given(step=st.integers(1, 80))
def test_a_reply_of_one_part_passes_byte_by_byte(kind: str, step: int) -> None:
    """With no loss nothing is changed, not a space, and no record waits for the next."""
    whole = KINDS[kind][2]("one", WORDS, PROMPT)
    one = splicer(kind)
    assert fed(one, whole, step) + one.end(2.0) == whole
    for record in whole.splitlines(keepends=True) if whole[:1] == b"{" else []:
        assert splicer(kind).feed(record, 1.0) == record


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_loss_is_gone_on_from_too(kind: str) -> None:
    """Three nodes, one reply: the counts are those of all three."""
    _, _, first, later = KINDS[kind]
    one = splicer(kind)
    end = b"\n" if kind in {"chat", "raw", "generate"} else b"\n\n"

    def beginning(reply: bytes, words: int) -> bytes:
        """As many records as hold so many words, and a part of the next."""
        records, found, at = reply.split(end), 0, 0
        while found < words:
            found += bool(text_of(records[at] + end))
            at += 1
        return end.join(records[:at]) + end + records[at][:9]

    body = fed(one, beginning(first("one", WORDS, PROMPT), 3), 11)
    assert one.delivered == 3
    one.go_on(2.0)
    body += fed(one, beginning(later("two", WORDS[3:], PROMPT + 3), 2), 11)
    assert one.delivered == 2, "of the second part"
    one.go_on(3.0)
    body += fed(one, later("three", WORDS[5:], PROMPT + 5), 11) + one.end(4.0)
    assert _read(body) == _read(first("one", WORDS, PROMPT))


def test_a_reply_that_reached_its_limit_gets_only_its_end() -> None:
    """Every word was there: the other node's one more is not said, its reason and usage are."""
    one = splicer("chat.completions", max_tokens=len(WORDS))
    whole = openai_chat("one", WORDS, PROMPT)
    cut = whole.index(b'data: {"choices": [{"index": 0, "delta": {}')
    body = fed(one, whole[:cut], 40)
    assert json.loads(one.rest())["max_tokens"] == 1
    one.go_on(2.0)
    body += one.feed(openai_chat("two", [" more"], PROMPT + len(WORDS)), 3.0) + one.end(3.0)
    assert text_of(body) == "".join(WORDS)
    assert body.count(b'"stop"') == body.count(b"[DONE]") == 1


def test_a_reason_that_was_said_is_not_said_again() -> None:
    """A cut between the reason and [DONE] loses the end only."""
    whole = openai_chat("one", WORDS, PROMPT)
    one = splicer("chat.completions")
    body = fed(one, whole[: whole.index(b'data: {"choices": []')], 40)
    one.go_on(2.0)
    body += one.feed(openai_chat("two", [" more"], PROMPT), 3.0) + one.end(3.0)
    assert text_of(body) == "".join(WORDS)
    assert body.count(b'"stop"') == body.count(b"[DONE]") == 1


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("chat", line({"message": {"content": "", "thinking": "hm"}, "done": False})),
        ("chat", line({"message": {"content": "", "tool_calls": [{"function": {}}]}, "done": False})),
        ("chat", line({"message": {"content": "<think>"}, "done": False})),
        ("chat", b"no json\n"),
        ("chat", line({"message": None, "done": False})),
        ("chat.completions", event({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]})),
        ("chat.completions", event({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0}]}}]})),
        ("chat.completions", event({"choices": [{"index": 1, "delta": {"content": "a"}}]})),
        ("chat.completions", event({"choices": None})),
        ("chat.completions", b"event: x\ndata: {}\n\n"),
        ("completions", event({"choices": [{"index": 0, "text": "a", "logprobs": {"tokens": ["a"]}}]})),
        ("completions", b"data: " + b"[" * 50_000 + b"\n\n"),
    ],
)
def test_more_than_plain_text_passes_and_does_not_go_on(kind: str, record: bytes) -> None:
    """A thought, the call of a tool, or what cannot be read: the client gets it, and no node is asked on."""
    one = splicer(kind)
    assert one.feed(record, 1.0) == record
    assert one.delivered is None


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("chat", line({"error": "it broke"})),
        ("chat.completions", event({"error": {"message": "it broke"}})),
        ("chat.completions", b'error: {"code":500}\n\n'),
    ],
)
def test_an_error_is_told_only_when_the_message_ends_with_it(kind: str, record: bytes) -> None:
    """A node that lost its engine ends with such a record and a broken message: another goes on, unseen."""
    words = KINDS[kind][2]("one", ["a"], 1).split(b"\n\n" if kind != "chat" else b"\n")[:2]
    one = splicer(kind)
    said = one.feed((b"\n\n" if kind != "chat" else b"\n").join([*words[:1], b""]), 1.0)
    assert one.feed(record, 1.0) == b""
    assert one.delivered is not None
    assert one.end(2.0) == record
    assert b"broke" not in said


def test_what_is_kept_of_a_reply_is_bounded() -> None:
    """A record without an end passes as it comes; a text longer than TEXT_BYTES goes on nowhere."""
    one = splicer("chat")
    assert one.feed(b"x" * (RECORD_BYTES + 1), 1.0) == b"x" * (RECORD_BYTES + 1)
    assert one.delivered is None
    later = splicer("chat")
    later.feed(ollama_chat("one", ["a"], 1)[:80], 1.0)
    later.go_on(2.0)
    with pytest.raises(ReplyTruncated):
        later.feed(b"x" * (RECORD_BYTES + 1), 3.0)
    long = splicer("chat")
    record = line({"message": {"content": "y" * 60_000}, "done": False})
    for _ in range(TEXT_BYTES // 60_000):
        long.feed(record, 1.0)
    assert long.delivered is not None
    long.feed(record, 1.0)
    assert long.delivered is None


def test_tokens_are_those_that_the_reply_counts_where_it_counts_them() -> None:
    """vLLM's running usage says more than the number of records."""
    one = splicer("completions")
    one.feed(event({"choices": [{"index": 0, "text": "abc"}], "usage": {"completion_tokens": 7}}), 1.0)
    assert one.delivered == 7


def test_a_byte_order_mark_of_a_later_part_is_dropped() -> None:
    """It would stand in the middle of the stream."""
    one = splicer("completions")
    one.feed(b"\xef\xbb\xbf" + openai_text("one", ["a", "b"], 1)[:150], 1.0)
    assert one.delivered == 1
    one.go_on(2.0)
    assert one.feed(b"\xef\xbb\xbf" + openai_text("two", ["a"], 1), 3.0).startswith(b"data: ")

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.dialects import reading
from pairproxy.core.dialects.reading_json import read_fields
from pairproxy.core.dialects.reading_prefix import (
    BLOCK_BYTES,
    BLOCKS_LIMIT,
    CHARACTERS_PER_TOKEN,
    JSON_BYTES,
    PIECES_LIMIT,
    TEXT_LIMIT,
    _written,
    chained,
    prefix_of,
)
from pairproxy.core.dialects.reading_prompt import MEDIA_TOKENS, measure
from pairproxy.core.models import BLOCK_TOKENS, RequestId

RULES = "You help with code. " * 100
TEXT = "What does this do? " * 100
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}] * 9


def prefix(**body: Any) -> tuple[int, ...]:
    """The hashes of a body's prompt."""
    return prefix_of(read_fields(json.dumps(body).encode()))[0]


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    """A message."""
    return {"role": role, "content": content, **more}


def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many blocks two prompts share at their start."""
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


STEP = [said("system", RULES), said("user", TEXT)]
NEXT = [*STEP, said("assistant", "Look.", tool_calls=[{"id": "1"}]), said("tool", "x = 1 " * 100)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"messages": STEP}, {"messages": NEXT}),
        ({"messages": STEP, "tools": TOOLS}, {"messages": NEXT, "tools": TOOLS}),
        ({"system": RULES, "messages": STEP[1:]}, {"system": RULES, "messages": NEXT[1:]}),
        ({"instructions": RULES, "input": STEP[1:]}, {"instructions": RULES, "input": NEXT[1:]}),
        ({"system_prompt": RULES, "input": TEXT}, {"system_prompt": RULES, "input": TEXT + "And? " * 99}),
        ({"prompt": TEXT}, {"prompt": TEXT + "And that? " * 99}),
        ({"system": RULES, "prompt": TEXT}, {"system": RULES, "prompt": TEXT + "And that? " * 99}),
        (
            {"input_extra": [{"text": RULES}], "prompt": TEXT},
            {"input_extra": [{"text": RULES}], "prompt": TEXT * 2},
        ),
        ({"prompt": [1, 2, 3] * 300}, {"prompt": [1, 2, 3] * 900}),
    ],
)
def test_the_next_step_of_a_chain_extends_the_last(before: dict[str, Any], after: dict[str, Any]) -> None:
    """In every dialect that carries a prompt: all of its blocks are found again, and more follow."""
    one, other = prefix(model="m", **before), prefix(model="m", **after)
    assert len(one) >= 7
    assert (
        shared(one, other) >= len(one) - 1
    )  # the bracket that ends a list of tokens may stand in the last one
    assert len(other) > len(one)


def test_what_a_client_does_around_the_text_changes_nothing() -> None:
    """The order of fields, another model, sampling, cache marks that move, a text as a part or as itself."""
    plain = prefix(model="m", tools=TOOLS, messages=STEP)
    assert prefix(messages=STEP, tools=TOOLS, model="other", temperature=0.1, stream=True) == plain
    turned = [dict(reversed(list(message.items()))) for message in STEP]
    assert prefix(messages=turned, tools=TOOLS) == plain
    marked = [
        said("system", RULES, tool_calls=None),
        said("user", [{"type": "text", "text": TEXT, "cache_control": {"type": "ephemeral"}}]),
    ]
    assert prefix(messages=marked, tools=TOOLS) == plain


@pytest.mark.parametrize(
    "changed",
    [
        {"tools": TOOLS[1:], "messages": STEP},
        {"tools": TOOLS, "messages": [said("user", RULES), said("user", TEXT)]},
        {"tools": TOOLS, "messages": [said("system", "It is 12:01. " + RULES), said("user", TEXT)]},
    ],
)
def test_what_the_engine_would_read_otherwise_differs(changed: dict[str, Any]) -> None:
    """A tool, a role, a word: everything behind it is another prompt."""
    one, other = prefix(tools=TOOLS, messages=STEP), prefix(**changed)
    assert set(one[3:]).isdisjoint(other[3:])


def test_an_image_counts_as_its_tokens_and_by_its_data() -> None:
    """Not by the size of its base64; another image is another prompt, the same one is found again."""

    def asked(data: str) -> tuple[int, ...]:
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        return prefix(messages=[said("user", [{"type": "text", "text": TEXT}, part])])

    one, other = asked("A" * 90_000), asked("A" * 89_999 + "B")
    tokens = len(one) * BLOCK_TOKENS - len(TEXT) / CHARACTERS_PER_TOKEN
    assert abs(tokens - MEDIA_TOKENS) < BLOCK_TOKENS
    assert len(one) == len(other)
    assert shared(one, other) == len(TEXT) // BLOCK_BYTES
    assert asked("A" * 90_000) == one
    ollama = [prefix(prompt=TEXT, images=[data * 50_000]) for data in "AAB"]
    assert ollama[0] == ollama[1] != ollama[2]
    assert len(ollama[0]) < 20


MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "tool"])})
    | st.fixed_dictionaries({
        "role": st.sampled_from(["user", "system", "", "\u00fc"]),
        "content": st.text(max_size=9) | st.sampled_from([RULES, TEXT, "line\n" * 400, ""]),
    }),
    max_size=5,
)  # fmt: skip


@given(messages=MESSAGES, more=st.dictionaries(st.sampled_from(["tools", "system", "prompt"]), st.just(TEXT)))
def test_messages_of_text_alone_are_written_as_all_others(
    messages: list[dict[str, str]], more: dict[str, str]
) -> None:
    """By a shorter way, to the same text: hashes and outline do not tell which it was."""
    fields = read_fields(json.dumps({"messages": messages, **more}).encode())
    texts = measure(fields).texts
    assert (texts is not None) == all("content" in one for one in messages)
    assert prefix_of(fields, texts) == prefix_of(fields)


@pytest.mark.parametrize("size", range(BLOCK_BYTES - 60, BLOCK_BYTES + 20))
def test_a_prompt_that_fills_a_block_has_one(size: int) -> None:
    """However few its characters beyond are: a shorter one is not written at all."""
    body = json.dumps({"messages": [said("user", "x" * size)]}, separators=(",", ":")).encode()
    fields = read_fields(body)
    assert prefix_of(fields, measure(fields).texts) == prefix_of(fields)


def test_hashes_are_the_same_in_every_life_of_a_daemon() -> None:
    """On every node: nothing of this process is in them."""
    code = "from pairproxy.core.dialects.reading_prefix import chained; print(chained(b'a' * 600))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(chained(b"a" * 600))
    assert BLOCK_BYTES == BLOCK_TOKENS * CHARACTERS_PER_TOKEN


@given(st.binary(max_size=1500), st.binary(max_size=600))
def test_a_hash_names_a_block_and_all_before_it(text: bytes, more: bytes) -> None:
    """A longer text has the hashes of the shorter and others; a change anywhere changes all from there on."""
    before = chained(text)
    assert len(before) == len(text) // BLOCK_BYTES
    assert chained(text + more)[: len(before)] == before
    if text:
        changed = chained(bytes([text[0] ^ 1]) + text[1:])
        assert set(changed).isdisjoint(before)
    assert all(0 <= one < 2**64 for one in before)


def test_what_is_beyond_the_limits_is_not_compared() -> None:
    """Neither the blocks of an endless text nor a field that is mostly images."""
    assert len(prefix(prompt="x" * (BLOCKS_LIMIT + 5) * BLOCK_BYTES)) == BLOCKS_LIMIT
    assert prefix(prompt="x" * JSON_BYTES) == ()


@pytest.mark.parametrize(
    ("field", "item"),
    [("messages", b'""'), ("messages", b'{"role":"user"}'), ("prompt", b'""'), ("images", b'"a"')],
)
def test_a_body_of_many_small_pieces_is_given_up_early(field: str, item: bytes) -> None:
    """A megabyte of it would else become millions of pieces, or gigabytes of images' names."""
    fields = read_fields(b'{"' + field.encode() + b'":[' + b",".join([item] * (PIECES_LIMIT + 2)) + b"]}")
    writer = _written(fields)
    assert PIECES_LIMIT / 256 < len(writer.pieces) <= PIECES_LIMIT + 4
    assert sum(map(len, writer.pieces)) <= TEXT_LIMIT + MEDIA_TOKENS * CHARACTERS_PER_TOKEN


@pytest.mark.parametrize(
    "text",
    [
        b'{"model":"m","messages":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"model":"m","messages":' + b'[{"content":' * 400 + b'"' + b"x" * 600 + b'"' + b"}]" * 400 + b"}",
        b'{"model":"m","prompt":' + b"9" * 5000 + b"}",
        b'{"model":"m","prompt":[{"a":1},"b",[3],null,7.5,true]}',
        b'{"model":"m","messages":{"role":["user"],"content":{"type":"text"}}}',
    ],
)
def test_no_body_is_refused_for_its_prompt(text: bytes) -> None:
    """Whatever cannot be hashed has no hashes; what else was read of it stays so."""
    read = reading.read(RequestId("r"), "/v1/chat/completions", text)
    assert read.stays is None
    assert read.model == "m:latest"


def test_a_request_carries_them_only_where_there_is_a_reply() -> None:
    """An embedding leaves no prefix that another request could go on from."""
    body = json.dumps({"model": "m", "messages": STEP, "input": TEXT, "prompt": TEXT}).encode()
    assert reading.read(RequestId("r"), "/api/chat", body).prefix == prefix_of(read_fields(body))[0] != ()
    assert reading.read(RequestId("r"), "/v1/embeddings", body).prefix == ()

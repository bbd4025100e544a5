import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.dialects.reading_json import read_fields
from pairproxy.core.dialects.reading_outline import LINE_BYTES, LINES_LIMIT, outline_of
from pairproxy.core.dialects.reading_prefix import OUTLINED_BLOCKS, prefix_of
from pairproxy.core.models import BLOCK_TOKENS, Outline

RULES = (
    "You help with code, whatever it is for.\nYou answer in one line, or in two lines.\n" * 30
    + "Today is Monday.\n"
    + "Be kind to everybody that asks you.\n" * 60
)
TOOLS = [{"type": "function", "function": {"name": "look"}}] * 40


def outline(**body: Any) -> Outline:
    """The outline of a body's prompt."""
    found = prefix_of(read_fields(json.dumps(body).encode()))[1]
    assert found is not None
    return found


def said(role: str, content: Any) -> dict[str, Any]:
    """A message."""
    return {"role": role, "content": content}


@given(st.lists(st.text(max_size=700), min_size=1, max_size=4))
def test_a_line_is_known_by_its_length_and_its_digest(texts: list[str]) -> None:
    """All of the text is in the lines, as far as there is room; the beginning of each part is known."""
    parts = [(f"message {number}", text.encode()) for number, text in enumerate(texts)]
    found = outline_of(parts)
    assert sum(map(Outline.bytes_of, found.lines)) == sum(len(text) for _, text in parts)
    for name, first in found.parts:
        number = int(name.removeprefix("message "))
        before = sum(len(text) for _, text in parts[:number])
        assert sum(map(Outline.bytes_of, found.lines[:first])) == before
    assert all(Outline.bytes_of(line) <= LINE_BYTES for line in found.lines)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"messages": [said("system", RULES), said("user", "x"), said("user", "y")]},
         ["system prompt", "message 2", "message 3"]),
        ({"system": RULES, "tools": TOOLS, "messages": [said("user", [{"type": "text", "text": "x"}])]},
         ["tools", "system prompt", "message 1"]),
        ({"instructions": RULES, "input": "x"}, ["system prompt", "input"]),
        ({"prompt": RULES}, ["prompt"]),
    ],
)  # fmt: skip
def test_the_parts_have_the_names_that_a_person_knows(body: dict[str, Any], names: list[str]) -> None:
    """In the order in which they are read."""
    assert [name for name, _ in outline(**body).parts] == names


def test_a_line_is_found_again_where_it_stands() -> None:
    """The character is counted from the beginning of the text of its message, not of its JSON."""
    monday = outline(messages=[said("system", RULES), said("user", "x")])
    friday = outline(messages=[said("system", RULES.replace("Monday", "Friday")), said("user", "x")])
    (differs,) = [
        number for number, (a, b) in enumerate(zip(monday.lines, friday.lines, strict=True)) if a != b
    ]
    assert monday.place_of(differs) == ("system prompt", RULES.index("Today"))


def test_an_outline_holds_no_text_and_no_more_than_its_limit() -> None:
    """Digests of 32 bits and lengths; of an endless prompt only the beginning."""
    found = outline(prompt="x" * 10**6)
    assert len(found.lines) == LINES_LIMIT
    assert all(line < 2**48 for line in found.lines)
    assert "x" not in repr(found)


def test_a_short_prompt_has_none() -> None:
    """What it could lose is not worth it."""
    size = OUTLINED_BLOCKS * BLOCK_TOKENS * 4
    assert prefix_of(read_fields(json.dumps({"prompt": "x" * (size - 20)}).encode()))[1] is None
    assert prefix_of(read_fields(json.dumps({"prompt": "x" * size}).encode()))[1] is not None

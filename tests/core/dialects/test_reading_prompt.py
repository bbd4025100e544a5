import json
from typing import Any

import pytest

from pairproxy.core.dialects.reading_json import MOST_VALUES, read_fields
from pairproxy.core.dialects.reading_prompt import MEDIA_TOKENS, Prompt, measure
from pairproxy.core.dialects.reading_ties import CROWDED, tie
from pairproxy.core.models import Dialect

DATA = "A" * 50_000
INLINE = f"data:image/png;base64,{DATA}"


def measured(**body: Any) -> Prompt:
    """The measure of a body."""
    return measure(read_fields(json.dumps(body).encode()))


def user(*parts: Any) -> list[dict[str, Any]]:
    """One message of these parts."""
    return [{"role": "user", "content": [{"type": "text", "text": "x" * 1000}, *parts]}]


@pytest.mark.parametrize(
    ("body", "need"),
    [
        ({"messages": [{"content": "x" * 1000, "images": [DATA]}]}, "vision"),
        ({"prompt": "x" * 1000, "images": [DATA]}, "vision"),
        ({"messages": user({"type": "image_url", "image_url": {"url": INLINE, "detail": "low"}})}, "vision"),
        ({"messages": user({"type": "video_url", "video_url": {"url": INLINE}})}, "vision"),
        ({"messages": user({"type": "image", "source": {"type": "base64", "data": DATA}})}, "vision"),
        ({"messages": user({"type": "input_audio", "input_audio": {"data": DATA}})}, "audio"),
        ({"messages": user({"type": "audio_url", "audio_url": {"url": INLINE}})}, "audio"),
        ({"input": user({"type": "input_image", "image_url": INLINE})}, "vision"),
        (
            {"input": [{"type": "text", "content": "x" * 1000}, {"type": "image", "data_url": INLINE}]},
            "vision",
        ),
        (
            {
                "messages": user(
                    {"type": "tool_result", "content": [{"type": "image", "source": {"data": DATA}}]}
                )
            },
            "vision",
        ),
        ({"input": user({"type": "function_call_output", "output": [{"image_url": INLINE}]})}, "vision"),
    ],
)
def test_media_count_by_number_not_by_size(body: dict[str, Any], need: str) -> None:
    """In the words of every dialect, also in the result of a tool."""
    prompt = measured(**body)
    assert prompt.media_tokens == MEDIA_TOKENS
    assert prompt.needs == {need}
    assert 1000 < prompt.text_bytes < 1300
    assert not prompt.is_elsewhere


@pytest.mark.parametrize(
    "address", ["https://example.org/a.png", "http://169.254.169.254/", "file:///etc/passwd", "HTTP://x/y"]
)
def test_an_address_is_told(address: str) -> None:
    """The engine would fetch it: in any dialect, with its slashes escaped too."""
    for part in (
        {"type": "image_url", "image_url": {"detail": "low", "url": address}},
        {"type": "input_image", "image_url": address},
        {"type": "image", "source": {"type": "url", "url": address}},
        {"type": "image", "data_url": address},
    ):
        assert measured(messages=user(part)).is_elsewhere
    escaped = json.dumps({"messages": user({"image_url": address})}).replace("/", "\\/")
    assert measure(read_fields(escaped.encode())).is_elsewhere
    assert not measured(messages=user({"type": "text", "text": address})).is_elsewhere


@pytest.mark.parametrize(
    "content", ["text", ["a", "b"], [1, 2, 3], [[1], [2]], None, 7, {}, [{"content": "x", "type": 7}], [None]]
)
def test_text_and_tokens_count_by_their_size(content: Any) -> None:
    """Whatever the shape, nothing else is made of it."""
    size = len(json.dumps(content))
    assert measured(input=content, prompt=content, user="not read") == Prompt(2 * size)


def test_parts_in_parts_end() -> None:
    """A message nested a thousand times is measured as text below the fourth level."""
    nested: Any = [{"type": "image", "image_url": DATA}]
    for _ in range(100):
        nested = [{"content": nested}]
    prompt = measured(messages=nested)
    assert prompt.media_tokens == 0
    assert prompt.text_bytes > len(DATA)


@pytest.mark.parametrize("field", ["messages", "input", "images", "tools"])
def test_a_prompt_of_too_many_parts_is_not_taken_apart(field: str) -> None:
    """It stays where it was sent, for nobody has looked for what ties it there; a long text is none."""
    body = {field: [{"image_url": "http://169.254.169.254/"}, *[1] * (MOST_VALUES + 1)]}
    prompt = measured(**body)
    assert prompt.is_crowded
    assert tie(Dialect.OPENAI, read_fields(json.dumps(body).encode()), prompt, "paced") == CROWDED
    assert not measured(**{field: [{"content": "x" * 4_000_000}]}).is_crowded

"""How much of a body is prompt: text by its size, images and sounds by their number, wherever they stand."""

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from pairproxy.core.dialects.reading_json import MOST_VALUES, Fields, is_crowded, items_of
from pairproxy.core.dialects.reading_shapes import Part, Text

PROMPT_KEYS: Final = frozenset({
    "messages", "prompt", "input", "system", "system_prompt", "instructions", "tools", "functions", "suffix",
    "content", "query", "documents", "input_extra",
})  # fmt: skip
MEDIA_TOKENS: Final = 600  # of one image; LLaVA's have 576, others 256 to 1280
_DEPTH: Final = 4  # a part of a tool's result in a message of a list is the third
_LOCATION_BYTES: Final = 2048  # where in a part of a message its address begins, if it has one

_ADDRESS: Final = re.compile(rb'"[A-Za-z][\w+.-]*:(?:\\?/){2}')

_WITH_PARTS: Final = ("messages", "input", "images", "tools")
_decode_texts: Final = msgspec.json.Decoder(list[Text]).decode
_decode_parts: Final = msgspec.json.Decoder(list[Part]).decode


@dataclass(slots=True, init=False)
class Prompt:
    """What a body asks to be read: bytes of text, tokens of media, and what these take of a model."""

    text_bytes: int
    media_tokens: int
    needs: set[str]
    is_elsewhere: bool
    """Whether media are named by an address that the engine itself would fetch."""
    is_crowded: bool
    """Whether it has so many parts that they were not looked at."""
    texts: list[Text] | None
    """Its messages, if each of them is text and nothing else."""

    def __init__(self, text_bytes: int = 0, *, is_elsewhere: bool = False) -> None:
        self.text_bytes = text_bytes
        self.media_tokens = 0
        self.needs = set()
        self.is_elsewhere = is_elsewhere
        self.is_crowded = False
        self.texts = None

    def add_media(self, value: msgspec.Raw, need: str) -> None:
        """Count one image or sound that was counted as text."""
        self.text_bytes -= len(value)
        self.media_tokens += MEDIA_TOKENS
        self.needs.add(need)
        self.is_elsewhere = self.is_elsewhere or bool(_ADDRESS.search(memoryview(value)[:_LOCATION_BYTES]))


def measure(fields: Fields) -> Prompt:
    """Measure what is prompt in a body. Raises msgspec.DecodeError only for what is no JSON."""
    text_bytes, largest = 0, 0
    for key, value in fields.items():
        size = len(value)
        if key in PROMPT_KEYS:
            text_bytes += size
        if size > largest:
            largest = size
    prompt = Prompt(text_bytes)
    if largest > MOST_VALUES:
        prompt.is_crowded = any(is_crowded(fields[key]) for key in _WITH_PARTS if key in fields)
        if prompt.is_crowded:
            return prompt
    messages, given, images = fields.get("messages"), fields.get("input"), fields.get("images")
    if messages is not None:
        prompt.texts = _texts(messages)
        if prompt.texts is None:
            _count_media(prompt, messages, _DEPTH)
    if given is not None:
        _count_media(prompt, given, _DEPTH)
    if images is not None:
        for image in items_of(images):
            prompt.add_media(image, "vision")
            prompt.text_bytes += len(image)  # it stands beside the prompt, not in it
    return prompt


def _texts(messages: msgspec.Raw) -> list[Text] | None:
    try:
        return _decode_texts(messages)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _count_media(prompt: Prompt, items: msgspec.Raw, depth: int) -> None:
    if depth == 0 or bytes(memoryview(items)[:1]) != b"[":
        return
    try:
        parts = _decode_parts(items)
    except msgspec.ValidationError:
        return  # texts or tokens
    for part in parts:
        for image in _images(part):
            prompt.add_media(image, "vision")
        for sound in (part.input_audio, part.audio_url):
            if sound:
                prompt.add_media(sound, "audio")
        _count_media(prompt, part.content, depth - 1)
        _count_media(prompt, part.output, depth - 1)


def _images(part: Part) -> list[msgspec.Raw]:
    images = items_of(part.images) if part.images else []
    places = [part.image_url, part.data_url, part.video_url]
    if bytes(part.type) == b'"image"':
        places.append(part.source)
    return images + [place for place in places if place]

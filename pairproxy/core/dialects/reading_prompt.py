"""How much of a body is prompt: text by its size, images and sounds by their number, wherever they stand."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from pairproxy.core.dialects.reading_json import Fields, is_crowded, items_of

PROMPT_KEYS = (
    "messages", "prompt", "input", "system", "system_prompt", "instructions", "tools", "functions", "suffix",
    "content", "query", "documents", "input_extra",
)  # fmt: skip
MEDIA_TOKENS = 600  # of one image; LLaVA's have 576, others 256 to 1280
_DEPTH = 4  # a part of a tool's result in a message of a list is the third
_LOCATION_BYTES = 2048  # where in a part of a message its address begins, if it has one

_NONE = msgspec.Raw(b"")
_ADDRESS = re.compile(rb'"[A-Za-z][\w+.-]*:(?:\\?/){2}')


class _Part(msgspec.Struct):
    """A message, or a part of one: what may hold media, in the words of every dialect."""

    type: msgspec.Raw = _NONE
    content: msgspec.Raw = _NONE
    output: msgspec.Raw = _NONE
    images: msgspec.Raw = _NONE
    image_url: msgspec.Raw = _NONE
    source: msgspec.Raw = _NONE
    data_url: msgspec.Raw = _NONE
    input_audio: msgspec.Raw = _NONE
    audio_url: msgspec.Raw = _NONE
    video_url: msgspec.Raw = _NONE


_WITH_PARTS = ("messages", "input", "images", "tools")
_decode_parts = msgspec.json.Decoder(list[_Part]).decode


@dataclass(slots=True)
class Prompt:
    """What a body asks to be read: bytes of text, tokens of media, and what these take of a model."""

    text_bytes: int = 0
    media_tokens: int = 0
    needs: set[str] = field(default_factory=set)
    is_elsewhere: bool = False
    """Whether media are named by an address that the engine itself would fetch."""
    is_crowded: bool = False
    """Whether it has so many parts that they were not looked at."""

    def add_media(self, value: msgspec.Raw, need: str) -> None:
        """Count one image or sound that was counted as text."""
        view = memoryview(value)
        self.text_bytes -= len(view)
        self.media_tokens += MEDIA_TOKENS
        self.needs.add(need)
        self.is_elsewhere = self.is_elsewhere or bool(_ADDRESS.search(view[:_LOCATION_BYTES]))


def measure(fields: Fields) -> Prompt:
    """Measure what is prompt in a body. Raises msgspec.DecodeError only for what is no JSON."""
    prompt = Prompt()
    for key in PROMPT_KEYS:
        if key in fields:
            prompt.text_bytes += len(memoryview(fields[key]))
    prompt.is_crowded = any(is_crowded(fields[key]) for key in _WITH_PARTS if key in fields)
    if prompt.is_crowded:
        return prompt
    for key in ("messages", "input"):
        if key in fields:
            _count_media(prompt, fields[key], _DEPTH)
    for image in items_of(fields.get("images")):
        prompt.add_media(image, "vision")
        prompt.text_bytes += len(memoryview(image))  # it stands beside the prompt, not in it
    return prompt


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
            if memoryview(sound):
                prompt.add_media(sound, "audio")
        _count_media(prompt, part.content, depth - 1)
        _count_media(prompt, part.output, depth - 1)


def _images(part: _Part) -> Iterator[msgspec.Raw]:
    if memoryview(part.images):
        yield from items_of(part.images)
    places = [part.image_url, part.data_url, part.video_url]
    if bytes(memoryview(part.type)) == b'"image"':
        places.append(part.source)
    yield from (place for place in places if memoryview(place))

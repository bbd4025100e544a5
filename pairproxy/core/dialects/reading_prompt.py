"""How much of a body is prompt: text by its size, images and sounds by their number, wherever they stand."""

import re
from collections.abc import Iterator

import msgspec

from pairproxy.core.dialects.reading_json import Fields, is_crowded, items_of

PROMPT_KEYS = frozenset({
    "messages", "prompt", "input", "system", "system_prompt", "instructions", "tools", "functions", "suffix",
    "content", "query", "documents", "input_extra",
})  # fmt: skip
MEDIA_TOKENS = 600  # of one image; LLaVA's have 576, others 256 to 1280
_DEPTH = 4  # a part of a tool's result in a message of a list is the third
_LOCATION_BYTES = 2048  # where in a part of a message its address begins, if it has one

_NONE = msgspec.Raw(b"")
_ADDRESS = re.compile(rb'"[A-Za-z][\w+.-]*:(?:\\?/){2}')


class Text(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message that is text and nothing else, as those of most chats are."""

    role: str
    content: str


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
_decode_texts = msgspec.json.Decoder(list[Text]).decode
_decode_parts = msgspec.json.Decoder(list[_Part]).decode


class Prompt(msgspec.Struct):
    """What a body asks to be read: bytes of text, tokens of media, and what these take of a model."""

    text_bytes: int = 0
    media_tokens: int = 0
    needs: set[str] = msgspec.field(default_factory=set)
    is_elsewhere: bool = False
    """Whether media are named by an address that the engine itself would fetch."""
    is_crowded: bool = False
    """Whether it has so many parts that they were not looked at."""
    texts: list[Text] | None = None
    """Its messages, if each of them is text and nothing else."""

    def add_media(self, value: msgspec.Raw, need: str) -> None:
        """Count one image or sound that was counted as text."""
        self.text_bytes -= len(value)
        self.media_tokens += MEDIA_TOKENS
        self.needs.add(need)
        self.is_elsewhere = self.is_elsewhere or bool(_ADDRESS.search(memoryview(value)[:_LOCATION_BYTES]))


def measure(fields: Fields) -> Prompt:
    """Measure what is prompt in a body. Raises msgspec.DecodeError only for what is no JSON."""
    prompt = Prompt(sum([len(value) for key, value in fields.items() if key in PROMPT_KEYS]))
    prompt.is_crowded = any(is_crowded(fields[key]) for key in _WITH_PARTS if key in fields)
    if prompt.is_crowded:
        return prompt
    if "messages" in fields:
        prompt.texts = _texts(fields["messages"])
        if prompt.texts is None:
            _count_media(prompt, fields["messages"], _DEPTH)
    if "input" in fields:
        _count_media(prompt, fields["input"], _DEPTH)
    for image in items_of(fields.get("images")):
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


def _images(part: _Part) -> Iterator[msgspec.Raw]:
    if part.images:
        yield from items_of(part.images)
    places = [part.image_url, part.data_url, part.video_url]
    if bytes(part.type) == b'"image"':
        places.append(part.source)
    yield from (place for place in places if place)

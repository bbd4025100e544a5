"""The prompt of a body as chained hashes of its blocks: what engines' prefix caches are compared by.

The text is brought into one order and spelling first (tools, system, messages), so that the next request of a
conversation begins as this one did, whatever its client does to the JSON around it. The hashes of two
dialects need not agree. They are the same on every node and in every life of a daemon; no text leaves here.
"""

import struct
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from pairproxy.core.dialects.reading_json import Fields, is_crowded
from pairproxy.core.dialects.reading_outline import outline_of
from pairproxy.core.dialects.reading_prompt import MEDIA_TOKENS
from pairproxy.core.dialects.reading_shapes import Text
from pairproxy.core.models import BLOCK_TOKENS, Outline

CHARACTERS_PER_TOKEN: Final = 4  # as prompts are measured (reading), so that both are wrong in the same way
BLOCK_BYTES: Final = BLOCK_TOKENS * CHARACTERS_PER_TOKEN  # of UTF-8
BLOCKS_LIMIT: Final = 8192  # half a million tokens, more than any window; what is beyond is not compared
TEXT_LIMIT: Final = BLOCKS_LIMIT * BLOCK_BYTES
PIECES_LIMIT: Final = 131_072  # of a prompt, written in 0.1 s: a message is about six
JSON_BYTES: Final = 32 * 2**20  # of one field; a larger one is mostly images, and is not compared

FIRST, SYSTEM = ("tools", "functions"), ("system", "system_prompt", "instructions")
LAST: Final = ("images", "input_extra", "messages", "input", "prompt", "suffix")
"""The fields in the order in which the usual chat templates write them."""
_BESIDE_MESSAGES: Final = frozenset((*FIRST, *SYSTEM, *LAST)) - {"messages"}
ROLE: Final = "role"
MEDIA: Final = frozenset({
    "images", "image_url", "data_url", "video_url", "audio_url", "source", "input_audio", "file",
})  # fmt: skip
UNREAD: Final = frozenset({"cache_control"})
"""What tells the engine something beside the prompt, and moves from message to message."""

_SHORT: Final = BLOCK_BYTES - 2 * len("messages")  # as JSON: no block comes of it, for as text it is shorter
OUTLINED_BLOCKS: Final = 16  # a thousand tokens; what is lost of shorter prompts is not worth a word
_START: Final = bytes(8)
_BLOCK: Final = struct.Struct(f"{BLOCK_BYTES}s")
_DEPTH: Final = 6  # a text in a result of a tool in a message is at 5; what is deeper is written as JSON
_FIELD, _ITEM = b"\x1f", b"\x1e"  # never in a text that a person writes
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def prefix_of(fields: Fields, texts: Sequence[Text] | None = None) -> tuple[tuple[int, ...], Outline | None]:
    """The hashes of the full blocks of a prompt (chained) and its outline; nothing if it cannot be read.

    ``texts`` are its messages, if they are known to be nothing else (reading_prompt).
    """
    if texts is not None and len(fields["messages"]) < _SHORT and _BESIDE_MESSAGES.isdisjoint(fields):
        return (), None
    try:
        writer = _written(fields, texts)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return (), None
    hashes = chained(b"".join(writer.pieces))
    return hashes, outline_of(writer.parts()) if len(hashes) >= OUTLINED_BLOCKS else None


def chained(text: bytes) -> tuple[int, ...]:
    """The hashes of the full blocks of a text, first to last: BLAKE2b (RFC 7693) of 8 bytes."""
    count = min(len(text) // BLOCK_BYTES, BLOCKS_LIMIT)
    last, found = _START, []
    for (block,) in _BLOCK.iter_unpack(memoryview(text)[: count * BLOCK_BYTES]):
        last = blake2b(block, digest_size=8, salt=last).digest()
        found.append(last)
    return struct.unpack(f">{count}Q", b"".join(found))


def _written(fields: Fields, texts: Sequence[Text] | None = None) -> "_Writer":
    """The text of a prompt. Tools are taken as they are spelled: a client spells them the same each time."""
    writer = _Writer()
    for key in FIRST:
        if key in fields:
            writer.begin(key)
            writer.add(bytes(fields[key]))
    for key in SYSTEM + LAST:
        value = fields.get(key)
        known = texts if key == "messages" else None
        if value is None or len(value) > JSON_BYTES or (known is None and is_crowded(value)):
            continue
        writer.add(_ITEM + key.encode() + _ITEM)
        writer.begin("system prompt" if key in SYSTEM else key)
        if known is not None:
            writer.write_texts(known)
        else:
            writer.write({key: _decode(value)} if key in MEDIA else _decode(value), 0)
    return writer


def _name_of(role: object, number: int) -> str:
    return "system prompt" if role == "system" else f"message {number}"


class _Writer:
    """Writes JSON values as text, up to TEXT_LIMIT and PIECES_LIMIT, whatever is made of one body."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._size = 0
        self._begun: list[tuple[str, int]] = []

    def begin(self, part: str) -> None:
        self._begun.append((part, len(self.pieces)))

    def parts(self) -> Iterator[tuple[str, bytes]]:
        """The text of each part with its name."""
        ends = [first for _, first in self._begun[1:]] + [len(self.pieces)]
        for (part, first), end in zip(self._begun, ends, strict=True):
            yield part, b"".join(self.pieces[first:end])

    def add(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self._size += len(piece)

    def is_full(self) -> bool:
        return self._size > TEXT_LIMIT or len(self.pieces) > PIECES_LIMIT

    def write_texts(self, texts: Sequence[Text]) -> None:
        """What ``write`` makes of a list of such messages, in a fourth of the time."""
        for number, text in enumerate(texts, 1):
            if self.is_full():
                break
            self.begin(_name_of(text.role, number))
            head = f"\x1e{text.role}\x1fcontent\x1f" if text.content else f"\x1e{text.role}"
            self.add(head.encode() + text.content[:TEXT_LIMIT].encode())

    def write(self, value: Any, depth: int) -> None:
        if self.is_full() or value is None:
            return
        if isinstance(value, str):
            self.add(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, list) and depth < _DEPTH and (not value or isinstance(value[0], str | dict)):
            for number, item in enumerate(value, 1):
                if self.is_full():
                    break
                if depth == 0:
                    self.begin(_name_of(item.get(ROLE) if isinstance(item, dict) else None, number))
                self._write_item(item, depth + 1)
        elif isinstance(value, dict) and depth < _DEPTH:
            self._write_fields(value, depth + 1)
        else:
            self.add(_encode(value))

    def _write_item(self, item: Any, depth: int) -> None:
        """A message, or a part of one: clients write one text as itself or as a part, by turns."""
        if isinstance(item, dict) and item.get("type") == "text" and "text" in item:
            self.write(item["text"], depth)
        else:
            self.add(_ITEM)
            self.write(item, depth)

    def _write_fields(self, fields: dict[str, Any], depth: int) -> None:
        if role := fields.get(ROLE):
            self.write(role, depth)  # before what is said, as every template has it
        for key in sorted(fields):
            if self.is_full():
                break
            value = fields[key]
            if not value or key == ROLE or key in UNREAD:
                continue
            self.add(_FIELD + key.encode("utf-8", "surrogatepass") + _FIELD)
            if key in MEDIA:
                self._write_media(value if isinstance(value, list) else [value])
            else:
                self.write(value, depth)

    def _write_media(self, media: list[Any]) -> None:
        """The name of each, as long as a text of its tokens: its share of the prompt is right."""
        for one in media:
            if self.is_full():
                break
            name = blake2b(_encode(one), digest_size=8).hexdigest().encode()
            self.add(name * (MEDIA_TOKENS * CHARACTERS_PER_TOKEN // len(name)))

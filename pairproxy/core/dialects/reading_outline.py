"""The lines of a prompt by their digests: enough to say later where two prompts part, too little to read."""

from collections.abc import Iterable, Iterator
from zlib import crc32

from pairproxy.core.models import Outline

LINES_LIMIT = 256  # of a prompt: parting early is what costs, and 10 KB is what a request may hold of it
LINE_BYTES = 256  # longer lines are cut: a block of the prefix cache
PART_BYTES = LINES_LIMIT * LINE_BYTES
_HEAD = b"\x1fcontent\x1f"  # between a message's role and its text (reading_prefix)
_HEAD_BYTES = 64


def outline_of(parts: Iterable[tuple[str, bytes]]) -> Outline:
    """The outline of named parts, up to LINES_LIMIT lines in all."""
    lines: list[int] = []
    named = []
    for name, text in parts:
        if not text:
            continue  # a list, whose items are parts
        head = text.find(_HEAD, 0, _HEAD_BYTES)
        begins = head + len(_HEAD) if head >= 0 else 0
        if begins:
            lines.append(_line(text[:begins]))
        named.append((name, len(lines)))
        lines += map(_line, _cut(text[begins : begins + PART_BYTES]))
        if len(lines) >= LINES_LIMIT:
            break
    return Outline(tuple(named), tuple(lines[:LINES_LIMIT]))


def _cut(text: bytes) -> Iterator[bytes]:
    for line in text.splitlines(keepends=True):
        if len(line) <= LINE_BYTES:
            yield line
        else:
            yield from (line[at : at + LINE_BYTES] for at in range(0, len(line), LINE_BYTES))


def _line(text: bytes) -> int:
    """The digest above sixteen bits of length."""
    return crc32(text) << 16 | len(text)

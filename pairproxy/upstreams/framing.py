"""Where a reply body ends, and what it holds once its framing is taken off.

A framing looks at each read once and answers how many of its bytes belong to the message. It never changes
a byte: the raw bytes go on to the client as they came, chunk boundaries included. That is why httptools
reads only the head: it decodes a body, but does not say where in the read the message ended.

Chunked bodies are read strictly (CRLF line ends, hexadecimal digits only), because what is passed on raw
must mean the same to every parser behind us.
"""

import re
from dataclasses import dataclass
from string import hexdigits
from typing import Final, Literal

FramingName = Literal["chunked", "length", "close", "none"]

LINE_BYTES: Final = 8192  # a chunk's size line with its extensions, or all trailers: as other servers allow

_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[^\r\n\0]*)?\r\n")
_SIZE_LINE_BEGUN: Final = re.compile(rb"[0-9A-Fa-f]{1,16}(?:;[^\r\n\0]*)?\r?")
_TRAILER_LINE: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r\n")


class Framing:
    """One body being read."""

    name: FramingName
    is_done: bool
    """The whole message was seen."""
    is_broken: bool
    """The sender broke the rules; nothing more may be fed."""

    @property
    def is_at_boundary(self) -> bool:
        """Whether one more chunk could follow legally; False unless chunked."""
        return False

    def feed(self, data: bytes) -> tuple[int, bytes]:
        """Return how many bytes of ``data`` belong to the message, and what they decode to."""
        raise NotImplementedError


class Empty(Framing):
    """A reply that has no body by rule: to HEAD, 204, 304."""

    def __init__(self) -> None:
        self.name = "none"
        self.is_done = True
        self.is_broken = False

    def feed(self, data: bytes) -> tuple[int, bytes]:
        """Nothing belongs to it."""
        return 0, b""


class Counted(Framing):
    """A body of Content-Length bytes."""

    def __init__(self, length: int) -> None:
        self.name = "length"
        self.is_done = length == 0
        self.is_broken = False
        self._left = length

    def feed(self, data: bytes) -> tuple[int, bytes]:
        """Take what is left of the count."""
        size, left = len(data), self._left
        if size >= left:
            self.is_done = True
            self._left = 0
            return left, data[:left]
        self._left = left - size
        return size, data


class UntilClose(Framing):
    """A body that the end of the connection ends; only the connection knows when it is done."""

    def __init__(self) -> None:
        self.name = "close"
        self.is_done = False
        self.is_broken = False

    def feed(self, data: bytes) -> tuple[int, bytes]:
        """Take all."""
        return len(data), data


@dataclass(frozen=True, slots=True)
class Ending:
    """How a head says where its body ends."""

    name: FramingName
    length: int = 0

    def begin(self) -> Framing:
        """Read one such body."""
        if self.name == "chunked":
            return Chunked()
        if self.name == "length":
            return Counted(self.length)
        return UntilClose() if self.name == "close" else Empty()


_SIZE: Final = 0
_DATA: Final = 1
_DATA_END: Final = 2
_TRAILERS: Final = 3
_NO_DIGIT: Final = 16
_DIGITS: Final = bytes([int(chr(one), 16) if chr(one) in hexdigits else _NO_DIGIT for one in range(256)])
_USUAL_DIGITS: Final = 3  # of a chunk's size: every token of every engine
_CR: Final = 13
_LF: Final = 10


def _usual_chunk(data: bytes, position: int) -> tuple[int, int]:
    """Where the bytes of a small chunk begin and end that is there whole; (0, 0) for all else.

    Nearly all are such. Digit by digit, since that is what a compiler makes fast.
    """
    end = len(data)
    if position + _USUAL_DIGITS + 4 >= end:
        return 0, 0
    size, start = 0, position
    while start < position + _USUAL_DIGITS:
        digit = _DIGITS[data[start]]
        if digit == _NO_DIGIT:
            break
        size = size * 16 + digit
        start += 1
    if size == 0 or data[start] != _CR or data[start + 1] != _LF:
        return 0, 0
    start += 2
    stop = start + size
    if stop + 2 > end or data[stop] != _CR or data[stop + 1] != _LF:
        return 0, 0
    return start, stop


class Chunked(Framing):
    """A body in chunks.

    ``SIZE -> DATA -> DATA_END -> SIZE ...``; size 0 leads to ``TRAILERS``, an empty line there to the end.
    """

    def __init__(self) -> None:
        self.name = "chunked"
        self.is_done = False
        self.is_broken = False
        self._state = _SIZE
        self._left = 0  # bytes of this chunk still to come
        self._line = b""  # the part of a line that earlier reads brought
        self._trailer_bytes = 0

    @property
    def is_at_boundary(self) -> bool:
        """Whether one more chunk could follow legally."""
        return self._state == _SIZE and not self._line

    def feed(self, data: bytes) -> tuple[int, bytes]:
        """Take chunks up to the end of the message, or up to the last whole thing before a fault."""
        if self._state == _SIZE and not self._line:
            start, stop = _usual_chunk(data, 0)
            if stop and stop + 2 == len(data):  # one read, one chunk: so it is with every stream
                return stop + 2, data[start:stop]
        parts: list[bytes] = []
        position = self._take(data, parts)
        return position, parts[0] if len(parts) == 1 else b"".join(parts)

    def _take(self, data: bytes, parts: list[bytes]) -> int:
        position, end = 0, len(data)
        while position < end and not self.is_done:
            state = self._state
            if state == _SIZE:
                start, stop = (0, 0) if self._line else _usual_chunk(data, position)
                if stop:
                    parts.append(data[start:stop])
                    position = stop + 2
                    continue
                after = self._read_size(data, position)
            elif state == _DATA:
                after = self._read_data(data, position, parts)
            elif state == _DATA_END:
                after = self._read_data_end(data, position)
            else:
                after = self._read_trailer(data, position)
            if after < 0:
                self.is_broken = True
                break
            position = after
        return position

    def _read_size(self, data: bytes, position: int) -> int:
        """Read a size line or its beginning; return the position after it, -1 if it is none."""
        if self._line:
            newline = data.find(b"\n", position)
            line = self._line + (data[position:] if newline < 0 else data[position : newline + 1])
            match = _SIZE_LINE.fullmatch(line)
            after = newline + 1
        else:
            match = _SIZE_LINE.match(data, position)
            if match is not None:
                after = match.end()
            else:
                line = data[position:]
        if match is None or len(match[0]) > LINE_BYTES:
            return self._begin_size(line, len(data)) if match is None else -1
        self._line = b""
        size = int(match[1], 16)
        self._left = size
        self._state = _DATA if size else _TRAILERS
        return after

    def _begin_size(self, line: bytes, end: int) -> int:
        if len(line) > LINE_BYTES or _SIZE_LINE_BEGUN.fullmatch(line) is None:
            return -1
        self._line = line
        return end

    def _read_data(self, data: bytes, position: int, parts: list[bytes]) -> int:
        part = data[position : position + self._left]
        parts.append(part)
        self._left -= len(part)
        if not self._left:
            self._state = _DATA_END
        return position + len(part)

    def _read_data_end(self, data: bytes, position: int) -> int:
        expected = b"\n" if self._line else b"\r\n"
        found = data[position : position + len(expected)]
        if found == expected:
            self._line = b""
            self._state = _SIZE
        elif expected.startswith(found):
            self._line = found
        else:
            return -1
        return position + len(found)

    def _read_trailer(self, data: bytes, position: int) -> int:
        newline = data.find(b"\n", position)
        after = len(data) if newline < 0 else newline + 1
        self._line += data[position:after]
        self._trailer_bytes += after - position
        if self._trailer_bytes > LINE_BYTES:
            return -1
        if newline < 0:
            return after
        line, self._line = self._line, b""
        if line == b"\r\n":
            self.is_done = True
            return after
        return after if _TRAILER_LINE.fullmatch(line) else -1

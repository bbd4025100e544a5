"""Where a reply body ends, and what it holds once its framing is taken off.

A framing looks at each read once and answers how many of its bytes belong to the message. It never changes
a byte: the raw bytes go on to the client as they came, chunk boundaries included. That is why httptools
reads only the head: it decodes a body, but does not say where in the read the message ended.

Chunked bodies are read strictly (CRLF line ends, hexadecimal digits only), because what is passed on raw
must mean the same to every parser behind us.
"""

import re
from typing import Literal, NamedTuple, Protocol

FramingName = Literal["chunked", "length", "close", "none"]

LINE_BYTES = 8192  # a chunk's size line with its extensions, or all trailers: as other servers allow

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[^\r\n\0]*)?\r\n")
_SIZE_LINE_BEGUN = re.compile(rb"[0-9A-Fa-f]{1,16}(?:;[^\r\n\0]*)?\r?")
_TRAILER_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r\n")


class Framing(Protocol):
    """One body being read."""

    name: FramingName
    is_done: bool
    """The whole message was seen."""
    is_broken: bool
    """The sender broke the rules; nothing more may be fed."""

    @property
    def is_at_boundary(self) -> bool:
        """Whether one more chunk could follow legally; False unless chunked."""

    def feed(self, data: bytes, parts: list[bytes]) -> int:
        """Append what ``data`` decodes to; return how many of its bytes belong to the message."""


class Empty:
    """A reply that has no body by rule: to HEAD, 204, 304."""

    name: FramingName = "none"
    is_done = True
    is_broken = False
    is_at_boundary = False

    def feed(self, data: bytes, parts: list[bytes]) -> int:
        """Nothing belongs to it."""
        return 0


class Counted:
    """A body of Content-Length bytes."""

    name: FramingName = "length"
    is_broken = False
    is_at_boundary = False

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_done = length == 0

    def feed(self, data: bytes, parts: list[bytes]) -> int:
        """Take what is left of the count."""
        good = min(len(data), self._left)
        if good:
            parts.append(data if good == len(data) else data[:good])
            self._left -= good
            self.is_done = self._left == 0
        return good


class UntilClose:
    """A body that the end of the connection ends; only the connection knows when it is done."""

    name: FramingName = "close"
    is_done = False
    is_broken = False
    is_at_boundary = False

    def feed(self, data: bytes, parts: list[bytes]) -> int:
        """Take all."""
        if data:
            parts.append(data)
        return len(data)


class Ending(NamedTuple):
    """How a head says where its body ends."""

    name: FramingName
    length: int = 0

    def begin(self) -> Framing:
        """Read one such body."""
        match self.name:
            case "chunked":
                return Chunked()
            case "length":
                return Counted(self.length)
            case "close":
                return UntilClose()
            case "none":
                return Empty()


_SIZE, _DATA, _DATA_END, _TRAILERS = range(4)
_USUAL_SIZES = {b"%x" % size: size for size in range(1, 4096)}  # three digits: every token of every engine


def _usual_chunks(data: bytes, position: int, parts: list[bytes]) -> int:
    """Take small chunks that are there whole; return the position after them.

    Nearly all are; looking their sizes up costs half of reading them.
    """
    end = len(data)
    while position < end:
        line_end = data.find(b"\r\n", position, position + 5)
        if line_end < 0:  # and not the whole rest looked up
            break
        size = _USUAL_SIZES.get(data[position:line_end])
        if size is None:
            break
        start = line_end + 2
        stop = start + size
        if data[stop : stop + 2] != b"\r\n":
            break
        parts.append(data[start:stop])
        position = stop + 2
    return position


class Chunked:
    """A body in chunks.

    ``SIZE -> DATA -> DATA_END -> SIZE ...``; size 0 leads to ``TRAILERS``, an empty line there to the end.
    """

    name: FramingName = "chunked"

    def __init__(self) -> None:
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

    def feed(self, data: bytes, parts: list[bytes]) -> int:
        """Take chunks up to the end of the message, or up to the last whole thing before a fault."""
        position, end = 0, len(data)
        while position < end and not self.is_done:
            state = self._state
            if state == _SIZE:
                if not self._line:
                    position = _usual_chunks(data, position, parts)
                    if position == end:
                        break
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

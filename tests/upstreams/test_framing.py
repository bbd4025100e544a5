"""The framings say where a body ends, whatever the reads look like."""

import itertools
import time

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.upstreams.framing import LINE_BYTES, Chunked, Counted, Empty, Framing, UntilClose
from tests.support.engine_scripts import LAST_CHUNK, chunk

BODIES = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
CUTS = st.lists(st.integers(0, 300), max_size=8)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """Split the bytes at these places."""
    places = sorted({0, len(data), *(place for place in cuts if place < len(data))})
    return [data[start:stop] for start, stop in itertools.pairwise(places)]


def feed(framing: Framing, reads: list[bytes]) -> tuple[int, bytes]:
    """Feed read after read as a connection does; return raw bytes taken and what they decode to."""
    parts: list[bytes] = []
    taken = 0
    for read in reads:
        good, part = framing.feed(read)
        parts.append(part)
        taken += good
        if framing.is_done or framing.is_broken:
            break
        assert good == len(read)
    return taken, b"".join(parts)


@given(BODIES, CUTS, st.sampled_from([b"", b"\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"0\r\n\r\n"]))
def test_a_chunked_body_ends_at_the_same_byte_however_it_is_split(
    body: list[bytes], cuts: list[int], extra: bytes
) -> None:
    """Every byte of the message is taken, none after it, and the body decodes to what was sent."""
    message = b"".join(map(chunk, body)) + LAST_CHUNK
    framing = Chunked()
    assert feed(framing, cut(message + extra, cuts)) == (len(message), b"".join(body))
    assert framing.is_done
    assert not framing.is_at_boundary


@given(BODIES, CUTS)
def test_a_chunk_may_follow_only_between_two_chunks(body: list[bytes], cuts: list[int]) -> None:
    """After every byte, the boundary is where the chunks taken so far are whole."""
    message = b"".join(map(chunk, body)) + LAST_CHUNK
    edges = {0}
    for part in body:
        edges.add(max(edges) + len(chunk(part)))
    framing = Chunked()
    for place, byte in enumerate(message, start=1):
        framing.feed(bytes([byte]))
        assert framing.is_at_boundary == (place in edges)


class Oracle:
    def __init__(self) -> None:
        self.body = b""
        self.is_done = False

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.is_done = True


PIECES = st.sampled_from(
    [
        b"5\r\nhello\r\n",
        b"0\r\n",
        b"\r\n",
        b"a",
        b"5;x=y\r\n",
        b"hello",
        b"1\r\n",
        b"\n",
        b" ",
        b"-",
        b"X: y\r\n",
        b"G",
    ]
)


@given(st.lists(PIECES, max_size=7).map(b"".join))
def test_what_we_take_for_whole_another_parser_reads_the_same(message: bytes) -> None:
    """A message that is done here is done for llhttp too, with the same body."""
    framing = Chunked()
    taken, body = feed(framing, [message])
    if framing.is_done:
        oracle = Oracle()
        parser = httptools.HttpResponseParser(oracle)
        parser.feed_data(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + message[:taken])
        assert (oracle.is_done, oracle.body) == (True, body)


@pytest.mark.parametrize(
    "bad",
    [
        b"zz\r\n", b"-5\r\n", b"+5\r\n", b"0x5\r\n", b"5_0\r\n", b" 5\r\n", b"5 \r\n", b"5\n", b"\r\n",
        b";x\r\n",
        b"1" * 17 + b"\r\n", b"1" * 17, b"5;\0\r\n", b"5;a\rb\r\n", b"5;" + b"x" * LINE_BYTES,
        b"5;" + b"x" * LINE_BYTES + b"\r\n",
        b"5\r\nhelloX", b"5\r\nhello\n", b"5\r\nhello\rX",
        b"0\r\nno colon\r\n\r\n", b"0\r\nX: a\0\r\n\r\n", b"0\r\nX: " + b"y" * LINE_BYTES, b"0\r\n\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 3, 100_000])
def test_broken_chunks_are_noticed_and_end_at_the_last_whole_thing(bad: bytes, size: int) -> None:
    """A wrong byte is never taken for part of the message, and what came whole before it is."""
    good = chunk(b"before")
    message = good + bad
    framing = Chunked()
    reads = [message[start : start + size] for start in range(0, len(message), size)]
    taken, body = feed(framing, reads)
    assert framing.is_broken
    assert not framing.is_done
    assert body.startswith(b"before")
    assert len(good) <= taken < len(message)
    if size > len(message) and not bad.startswith((b"5\r\nhello", b"0\r\n")):
        assert taken == len(good)
        assert framing.is_at_boundary


@pytest.mark.parametrize("size", [1, 2, 15, 16, 255, 256, 4095, 4096, 65_536])
@pytest.mark.parametrize("digits", ["%x", "%X", "0%x", "%x;a=b"])
def test_chunks_of_any_size_come_whole_in_one_read(size: int, digits: str) -> None:
    """Alone, one behind the other, and with the last one; a line end in their middle is none of theirs."""
    part = (b"\r\n" * size)[:size]
    one = (digits % size).encode() + b"\r\n" + part + b"\r\n"
    framing = Chunked()
    assert framing.feed(one) == (len(one), part)
    assert framing.is_at_boundary
    assert framing.feed(one * 2) == (2 * len(one), part * 2)
    assert framing.feed(one + b"0\r\n\r\nrest") == (len(one) + 5, part)
    assert framing.is_done


def test_a_size_line_cut_before_its_line_feed_is_waited_for() -> None:
    """A line end earlier in the same read is not taken for its own."""
    framing = Chunked()
    assert feed(framing, [b"1\r\nX\r\n3\r", b"\nabc\r\n0\r\n\r\n"]) == (19, b"Xabc")
    assert framing.is_done


def test_trailers_and_extensions_belong_to_the_message() -> None:
    """Both are legal and pass."""
    message = b"5;name=value\r\nhello\r\n0;last\r\nX-Checksum: 1\r\nY:\r\n\r\n"
    framing = Chunked()
    assert feed(framing, [message + b"rest"]) == (len(message), b"hello")
    assert framing.is_done


def test_trailers_are_bounded_together() -> None:
    """Endless trailers are a fault."""
    framing = Chunked()
    feed(framing, [b"0\r\n", *([b"X-More: yes\r\n"] * LINE_BYTES)])
    assert framing.is_broken


@given(st.binary(max_size=50), st.binary(max_size=9), CUTS)
def test_a_counted_body_ends_with_its_count(body: bytes, extra: bytes, cuts: list[int]) -> None:
    """Bytes after Content-Length are not taken."""
    framing = Counted(len(body))
    assert framing.is_done == (not body)
    if body:
        assert feed(framing, cut(body + extra, cuts)) == (len(body), body)
        assert framing.is_done


def test_only_the_connection_ends_a_body_without_framing() -> None:
    """It takes all and is never done by itself."""
    framing = UntilClose()
    assert feed(framing, [b"a", b"", b"b"]) == (2, b"ab")
    assert not framing.is_done


def test_a_reply_without_a_body_takes_nothing() -> None:
    """It is done before the first byte."""
    framing = Empty()
    assert framing.is_done
    assert framing.feed(b"x") == (0, b"")


@pytest.mark.parametrize("one", [b"0001\r\nx\r\n", b"1;a=b\r\nx\r\n"])
def test_unusual_chunks_cost_what_they_are(one: bytes) -> None:
    """Four times as many in one read take four times as long: nobody holds the loop up with a read."""

    def taken_s(count: int) -> float:
        began_at = time.process_time()
        Chunked().feed(one * count)
        return time.process_time() - began_at

    few, many = (min(taken_s(count) for _ in range(3)) for count in (10_000, 40_000))
    assert many < 9 * few

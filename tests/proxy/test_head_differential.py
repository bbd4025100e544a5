"""Heads beside llhttp: it may refuse what is read here, but reads nothing in another way."""

import random

import httptools
import pytest

from pairproxy.proxy.head import Head, Malformed, read_head

MOST = 4096
TRIES = 10_000  # of each seed, 0.2 s
BEGINNINGS = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /api/chat?a=b%20c HTTP/1.1\r\nHost: localhost:11434\r\nContent-Length: 5\r\nA: b c\r\n\r\n",
    b"PUT /x HTTP/1.1\r\nhost: x\r\nTransfer-Encoding: chunked\r\nConnection: close, x\r\n\r\n",
    b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length:12\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\nX: \xc3\xa4\xff\r\n\r\n",
)
PIECES = (
    *(b"\r", b"\n", b"\r\n", b"\r\n ", b" ", b"\t", b":", b",", b"\0", b"\x0b", b"\x0c", b"\x7f", b"\x85"),
    *(b"0", b"5", b"+", b"-", b"_", b"#", b"?", b"//", b"\xa0", b"\xff"),
    *(b"chunked", b"identity", b"HTTP/1.0", b"HTTP/2.0"),
    *(b"\r\nContent-Length: 5", b"\r\nTransfer-Encoding: chunked", b"\r\nConnection: close", b"\r\n\r\n"),
)  # fmt: skip


class Seen:
    """What llhttp tells of a request."""

    def __init__(self) -> None:
        self.target = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.has_head = self.is_whole = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_message_complete(self) -> None:
        self.is_whole = True


def mutated(chance: random.Random) -> bytes:
    """A head with some bytes more, fewer or others."""
    data = chance.choice(BEGINNINGS)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(data))
        data = data[:at] + chance.choice(PIECES) + data[at + chance.choice((0, 0, 1, 2)) :]
    return data


def is_read_alike(head: Head, raw: bytes) -> bool | None:
    """Whether llhttp reads the same request, and its body ends at the same byte; None: it refuses it."""
    seen = Seen()
    parser = httptools.HttpRequestParser(seen)
    body = b"0\r\n\r\n" if head.length is None else b"x" * min(head.length, 100)
    try:
        parser.feed_data(raw)
        was_whole = seen.is_whole
        for at in range(len(body)):
            if seen.is_whole:
                return False
            parser.feed_data(body[at : at + 1])
    except httptools.HttpParserUpgrade:
        return None
    except httptools.HttpParserError:
        return None
    is_ended = seen.is_whole if body and len(body) == (head.length or len(body)) else True
    return (
        seen.has_head
        and (parser.get_method().decode(), seen.target.decode("utf-8", "surrogateescape"))
        == (head.method, head.target)
        and parser.get_http_version() == f"{head.version[0]}.{head.version[1]}"
        and tuple(seen.fields) == head.raw_fields
        and was_whole == (not body)
        and is_ended
    )


@pytest.mark.parametrize("seed", range(4))
def test_what_is_read_is_read_alike_by_another_parser(seed: int) -> None:
    """Thousands of heads that are nearly right."""
    chance = random.Random(seed)
    counts = {True: 0, None: 0}
    for _ in range(TRIES):
        data = mutated(chance)
        try:
            found = read_head(data, MOST)
        except Malformed:
            continue
        if found is not None:
            head, size = found
            alike = is_read_alike(head, data[:size])
            assert alike is not False, data
            counts[alike] += 1
    assert counts[True] > TRIES / 20, counts
    assert counts[None] < counts[True] / 5, counts

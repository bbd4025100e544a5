"""Heads of requests: what is read, and what is refused because somebody could read it in another way."""

import pytest

from pairproxy.proxy.head import EARLY_BYTES, FIELDS, REMEMBERED, Head, Malformed, _remembered, read_head

MOST = 1024


def head_of(text: bytes) -> Head:
    """The head of these lines, whatever follows it."""
    found = read_head(text + b"\r\n\r\nbehind", MOST)
    assert found is not None
    head, size = found
    assert size == len(text) + 4
    return head


def status_of(data: bytes) -> int | None:
    """What the sender of these bytes is told; None: nothing yet, or nothing at all."""
    try:
        read_head(data, MOST)
    except Malformed as error:
        return error.status
    return None


GET = b"GET / HTTP/1.1\r\nHost: x"


def test_a_head_is_read_as_it_came() -> None:
    """Order and spelling stay in the raw headers; looking one up does not mind its case."""
    head = head_of(
        b"POST /a?b=%20c#d HTTP/1.1\r\nhOST:x\r\nX-A: \t one \t\r\nx-a:two\r\nEmpty:\r\nContent-Length: 5"
    )
    assert (head.method, head.target, head.version, head.length) == ("POST", "/a?b=%20c#d", (1, 1), 5)
    assert head.raw_fields == (
        (b"hOST", b"x"),
        (b"X-A", b"one"),
        (b"x-a", b"two"),
        (b"Empty", b""),
        (b"Content-Length", b"5"),
    )
    assert head.fields.getall("X-A") == ["one", "two"]


def test_bytes_beyond_ascii_go_on_as_they_came() -> None:
    """In values, also where they are no UTF-8."""
    head = head_of("GET / HTTP/1.1\r\nHost: x\r\nA: ä".encode() + b"\xff")
    assert head.raw_fields[1][1] == "ä".encode() + b"\xff"
    assert head.fields["A"].encode("utf-8", "surrogateescape") == "ä".encode() + b"\xff"


@pytest.mark.parametrize(
    ("lines", "length", "is_counted"),
    [
        (b"", 0, False),
        (b"\r\nContent-Length: 0", 0, True),
        (b"\r\nContent-Length: 9223372036854775808", 2**63, True),
        (b"\r\nTransfer-Encoding: Chunked", None, False),
        (b"\r\nTransfer-Encoding: gzip, chunked", None, False),
    ],
)
def test_a_body_is_counted_or_in_chunks(lines: bytes, length: int | None, is_counted: bool) -> None:
    """A request that tells neither has none."""
    head = head_of(GET + lines)
    assert (head.length, head.is_counted) == (length, is_counted)


@pytest.mark.parametrize(
    ("version", "connection", "is_kept"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"close", False),
        (b"1.1", b"x, Close", False),
        (b"1.0", b"", False),
        (b"1.0", b"Keep-Alive", True),
        (b"1.0", b"keep-alive, close", False),
        (b"2.0", b"", False),
        (b"2.0", b"keep-alive", False),
    ],
)
def test_whether_another_request_may_follow(version: bytes, connection: bytes, is_kept: bool) -> None:
    """As its version and its Connection say."""
    lines = b"\r\nConnection: " + connection if connection else b""
    assert head_of(b"GET / HTTP/%b\r\nHost: x%b" % (version, lines)).is_kept == is_kept


REFUSED = {
    "a method that is none": b"BREW / HTTP/1.1\r\nHost: x",
    "a method in small letters": b"get / HTTP/1.1\r\nHost: x",
    "no version": b"GET /\r\nHost: x",
    "a version that is none": b"GET / HTTP/1.2\r\nHost: x",
    "the preface of HTTP/2": b"PRI * HTTP/2.0",
    "two spaces": b"GET  / HTTP/1.1\r\nHost: x",
    "a space in the target": b"GET /a b HTTP/1.1\r\nHost: x",
    "a tab for a space": b"GET\t/ HTTP/1.1\r\nHost: x",
    "a target beyond ASCII": "GET /ü HTTP/1.1\r\nHost: x".encode(),
    "a control character in the target": b"GET /\x01 HTTP/1.1\r\nHost: x",
    "a space before the line": b" GET / HTTP/1.1\r\nHost: x",
    "no Host": b"GET / HTTP/1.1\r\nA: b",
    "two Hosts": GET + b"\r\nHost: x",
    "two types": GET + b"\r\nContent-Type: a\r\ncontent-type: a",
    "a folded line": GET + b"\r\nA: b\r\n c: d",
    "a folded first line": b"GET / HTTP/1.1\r\n Host: x",
    "a space before a colon": GET + b"\r\nContent-Length : 5",
    "no name": GET + b"\r\n: b",
    "no colon": GET + b"\r\nab",
    "a name beyond ASCII": GET + b"\r\nContent-L\xc3\xa4ngth: 5",
    "NUL": GET + b"\r\nA: b\0c",
    "DEL": GET + b"\r\nA: b\x7fc",
    "CR in a value": GET + b"\r\nA: b\rContent-Length: 5",
    "LF in a value": GET + b"\r\nA: b\nContent-Length: 5",
    "LF ends the request line": b"GET / HTTP/1.1\nHost: x",
    "two lengths": GET + b"\r\nContent-Length: 5\r\nContent-Length: 5",
    "a list of lengths": GET + b"\r\nContent-Length: 5, 5",
    "a length with a sign": GET + b"\r\nContent-Length: +5",
    "a negative length": GET + b"\r\nContent-Length: -5",
    "no length": GET + b"\r\nContent-Length:",
    "a hexadecimal length": GET + b"\r\nContent-Length: 0x5",
    "a length in other digits": GET + "\r\nContent-Length: \u0665".encode(),
    "a length of a hundred digits": GET + b"\r\nContent-Length: " + b"1" * 100,
    "length and chunks": GET + b"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
    "chunks not last": GET + b"\r\nTransfer-Encoding: chunked, gzip",
    "chunks twice": GET + b"\r\nTransfer-Encoding: chunked, chunked",
    "two codings": GET + b"\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
    "no chunks": GET + b"\r\nTransfer-Encoding: identity",
    "an empty coding": GET + b"\r\nTransfer-Encoding:",
    "chunks with a Kelvin sign": GET + "\r\nTransfer-Encoding: chun\u212aed".encode(),
    "chunks in HTTP/1.0": b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked",
    "too many headers": GET + b"\r\nA: b" * FIELDS,
}


@pytest.mark.parametrize("lines", REFUSED.values(), ids=REFUSED.keys())
def test_what_could_be_read_in_two_ways_is_refused(lines: bytes) -> None:
    """As soon as its head is there."""
    assert status_of(lines + b"\r\n\r\n") == 400


def test_as_many_headers_as_may_be_are_read() -> None:
    """The limit counts what is in it."""
    assert len(head_of(GET + b"\r\nA: b" * (FIELDS - 1)).raw_fields) == FIELDS


@pytest.mark.parametrize("whole", [GET + b"\r\nA: b\r\n\r\n", b"OPTIONS /a/b HTTP/1.0\r\n\r\n"])
def test_a_head_may_come_in_any_pieces(whole: bytes) -> None:
    """None of its beginnings is taken for something else, and none for a whole."""
    assert [status_of(whole[:size]) for size in range(1, len(whole))] == [None] * (len(whole) - 1)
    assert all(read_head(whole[:size], MOST) is None for size in range(1, len(whole)))
    assert read_head(whole, MOST) is not None


@pytest.mark.parametrize(
    "begun",
    [
        b"\x16\x03\x01\x02",
        b"hello",
        b"GET /\x01",
        b"GET / HTML",
        b"GET / HTTP/1.1\n",
        GET + b"\r\n A: b\r\n",
        GET + b"\n",
    ],
)
def test_garbage_is_told_before_its_end(begun: bytes) -> None:
    """Who waits for an answer gets one."""
    assert status_of(begun) == 400


def test_a_long_head_is_not_looked_at_again_with_every_byte() -> None:
    """Who lets it drip in would keep us busy: what is wrong with it is told when it is whole."""
    lines = GET + b"\r\nA: b" * 100 + b"\r\nA: " + b"b" * EARLY_BYTES + b"\r\n no\r\n"
    assert read_head(lines, 2 * len(lines)) is None
    with pytest.raises(Malformed):
        read_head(lines + b"\r\n", 2 * len(lines))


def test_a_head_has_a_size() -> None:
    """A line that is too long is told as such, all of them together as what they are; whole or not."""
    lines = b"\r\nA: " + b"b" * 400
    for end in (b"", b"\r\n\r\n"):
        assert status_of(GET + lines * 2 + end) is None
        assert status_of(GET + lines * 3 + end) == 431
        assert status_of(GET + b"b" * MOST + end) == 400
    assert status_of(b"GET /" + b"a" * MOST) == 400


def test_the_same_head_is_read_once() -> None:
    """To the byte; what it was read into cannot be changed."""
    first, again = head_of(GET + b"\r\nA: once"), head_of(GET + b"\r\nA: once")
    assert first is again
    assert head_of(GET + b"\r\na: once") is not first


@pytest.mark.parametrize(
    "secret",
    [
        *(b"GET / HTTP/1.1\r\nHost: x\r\n%b: CANARY-5d1c" % name
          for name in (b"authorization", b"Cookie", b"X-API-Key", b"api-key", b"x-goog-api-key",
                        b"Cf-Access-Jwt-Assertion", b"X-Signature")),
        b"GET /v1/models?key=CANARY-5d1c HTTP/1.1\r\nHost: x",
        b"GET /ws?access_Token=CANARY-5d1c HTTP/1.1\r\nHost: x",
    ],
)  # fmt: skip
def test_secrets_are_not_kept(secret: bytes) -> None:
    """Neither are long heads; and of all others few."""
    head_of(secret)
    head_of(GET + b"\r\nA: " + b"b" * 990)
    for number in range(2 * REMEMBERED):
        head_of(GET + b"\r\nA: %d" % number)
    assert len(_remembered) == REMEMBERED
    assert not [raw for raw in _remembered if b"CANARY-5d1c" in raw or len(raw) > 1000]

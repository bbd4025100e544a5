"""Which headers go on, towards whom."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.proxy import headers


def pairs(*lines: str) -> headers.Headers:
    """Raw headers from ``Name: value`` lines."""
    split = (line.encode().split(b": ", 1) for line in lines)
    return tuple((name, value) for name, value in split)


def test_the_engine_gets_what_its_client_sent() -> None:
    """Order, spelling and repetition stay; hop-by-hop headers and our own do not."""
    kept = pairs("Host: x", "COOKIE: a=b", "Cookie: c=d", "Authorization: Bearer k", "content-LENGTH: 3")
    dropped = pairs("TE: trailers", "Expect: 100-continue", "X-Pairproxy-Run: r", "x-pairproxy-local: true")
    assert headers.to_engine((*kept[:2], *dropped, *kept[2:])) == kept


@pytest.mark.parametrize("name", sorted(headers.HOP_BY_HOP))
def test_no_hop_by_hop_header_passes(name: bytes) -> None:
    """Whatever its case, and in both directions; a reply's Transfer-Encoding stays, for its chunks stay."""
    sent = ((name.upper(), b"x"), (b"A", b"1"))
    assert headers.to_engine(sent) == ((b"A", b"1"),)
    is_framing = name == b"transfer-encoding"
    assert headers.to_client(sent, is_from_peer=False) == (sent if is_framing else ((b"A", b"1"),))


def test_what_connection_names_stays_on_this_hop() -> None:
    """Its tokens are taken apart, without case; a length, a framing or a host that it names stays."""
    chunked = pairs("Connection: Transfer-Encoding", "Transfer-Encoding: chunked")
    assert headers.to_client(chunked, is_from_peer=False) == pairs("Transfer-Encoding: chunked")
    sent = pairs(
        "Connection: close, X-Foo", "Connection: Content-Length,host", "x-foo: 1", "Content-Length: 3"
    )
    assert headers.to_engine((*sent, (b"Host", b"x"))) == pairs("Content-Length: 3", "Host: x")
    assert headers.to_client(sent, is_from_peer=False) == pairs("Content-Length: 3")


def test_a_peer_learns_the_type_and_the_size_of_a_body() -> None:
    """How it is encoded too, and nothing else of what the client said; the size is counted, not believed."""
    sent = pairs(
        "Host: localhost",
        "Authorization: Bearer k",
        "Cookie: a",
        "Origin: http://localhost",
        "User-Agent: agent",
        "Content-Type: application/json",
        "Content-Length: 99",
        "Content-Encoding: gzip",
        "accept: */*",
        "X-Pairproxy-Request: forged",
    )
    expected = pairs(
        "Content-Type: application/json",
        "Content-Encoding: gzip",
        "accept: */*",
        "Content-Length: 2",
        "Host: peer",
    )
    assert headers.to_peer(sent, b"{}", (("Host", "peer"),)) == expected


def test_of_a_peers_reply_the_client_learns_no_more_than_it_needs() -> None:
    """An allow-list, whatever the case; from this node's engine everything comes through."""
    kept = pairs("Content-Type: application/json", "TRANSFER-ENCODING: chunked", "Retry-After: 1")
    other = pairs("Set-Cookie: a=b", "Location: /", "Server: x", "X-Pairproxy-Refused: y")
    assert headers.to_client((*kept, *other), is_from_peer=True) == kept
    assert headers.to_client((*kept, *other), is_from_peer=False) == (*kept, *other)


def test_the_first_value_counts() -> None:
    """Names have no case; bytes beyond ASCII are kept one to one."""
    sent = ((b"content-type", b"a\xe9"), (b"Content-Type", b"b"))
    assert headers.first(sent, "CONTENT-TYPE") == "a\xe9"
    assert headers.first(sent, "Accept") is None


def test_the_length_of_another_body_is_told_anew() -> None:
    """Where it was told: a chunked body has none; order and spelling stay."""
    sent = pairs("Host: x", "content-LENGTH: 3", "Accept: */*")
    assert headers.with_length(sent, b"12345") == pairs("Host: x", "content-LENGTH: 5", "Accept: */*")
    chunked = pairs("Transfer-Encoding: chunked")
    assert headers.with_length(chunked, b"12345") == chunked


def test_a_body_without_its_coding_is_not_said_to_have_one() -> None:
    """Whatever the case of its name; nothing else is touched."""
    sent = pairs("content-ENCODING: gzip", "Accept-Encoding: gzip", "Content-Type: a/b")
    assert headers.decoded(sent) == pairs("Accept-Encoding: gzip", "Content-Type: a/b")


def test_a_peer_learns_more_only_where_it_is_named() -> None:
    """One request may take one more header along."""
    sent = pairs("User-Agent: agent", "Cookie: a", "Accept: */*")
    also = frozenset({b"user-agent"})
    assert headers.to_peer(sent, b"{}", (), also) == pairs(
        "User-Agent: agent", "Accept: */*", "Content-Length: 2"
    )


def test_a_list_that_is_made_anew_has_neither_conditions_nor_the_old_ones_marks() -> None:
    """What asks for less than the whole, and what names or measures the body that was replaced."""
    asked = pairs("Host: x", 'If-None-Match: "1"', "RANGE: bytes=0-1", "If-Modified-Since: d")
    assert headers.unconditional(asked) == pairs("Host: x")
    told = pairs(
        "Content-Type: a/b", "Content-Length: 3", 'ETag: "1"', "Transfer-Encoding: chunked", "Vary: Origin"
    )
    assert headers.without_body(told) == pairs("Content-Type: a/b", "Vary: Origin")


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (f"00-{TRACE}-01", f"00-{TRACE}-01"),
        (f" 00-{TRACE}-00\t", f"00-{TRACE}-00"),
        (f"00-{TRACE}-ff", f"00-{TRACE}-01"),  # of the flags only the sampled one is known
        (f"cc-{TRACE}-02-what-the-future-holds", f"00-{TRACE}-00"),
        (f"ff-{TRACE}-01", ""),
        (f"00-{TRACE}-01-more", ""),
        (f"00-{TRACE.upper()}-01", ""),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", ""),
        (f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01", ""),
        (f"00-{TRACE}-1", ""),
        (f"00-{TRACE}-01\n", ""),
        (f"cc-{TRACE}-01-a\nb", ""),
        ("", ""),
    ],
)
def test_a_traceparent_is_read_by_the_rules_of_the_w3c(given: str, read: str) -> None:
    """What does not keep to them is no trace; what is passed on has one form."""
    assert headers.trace_of([given]) == read


def test_two_traceparents_are_none() -> None:
    """Nor is no header one."""
    assert headers.trace_of([f"00-{TRACE}-01"] * 2) == ""
    assert headers.trace_of([]) == ""
    assert headers.on_trace("") == ()


@given(st.text(alphabet="0123456789abcdefF-g \n", max_size=70) | st.text())
def test_whatever_a_client_sends_as_a_traceparent_is_harmless(text: str) -> None:
    """It is 55 known characters afterwards, or nothing."""
    assert re.fullmatch(r"(00-[0-9a-f]{32}-[0-9a-f]{16}-0[01])?", headers.trace_of([text]))


def test_what_is_remembered_of_names_is_bounded() -> None:
    """Whoever invents names costs no memory, and each is judged all the same."""
    asked: list[bytes] = []

    def judge(name: bytes) -> bool:
        asked.append(name)
        return name.startswith(b"x")

    fates = headers.Fates(judge)
    names = [b"X-%d" % number for number in range(2 * headers.SPELLINGS)]
    long = b"x" * (headers.NAME_BYTES + 1)
    assert all(fates[name] for name in (long, *names, *names, long))
    assert len(fates) == headers.SPELLINGS
    assert long not in fates
    assert asked.count(names[0].lower()) == 1
    assert asked.count(names[-1].lower()) == 2

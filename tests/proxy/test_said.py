"""What a head says to a port."""

import pytest

from pairproxy.proxy.head import read_head
from pairproxy.proxy.said import NAME_LENGTH, Said
from tests.support.raw_client import request


def said(*fields: str) -> Said:
    """What these headers say."""
    found = read_head(request("GET / HTTP/1.1", None, *fields), 65536)
    assert found is not None
    return Said(found[0].fields, found[0].raw_fields)


def test_most_say_nothing() -> None:
    """But which host they ask."""
    plain = said()
    assert (plain.hosts, plain.origins, plain.site) == (["localhost"], [], None)
    assert (plain.coding, plain.content_type, plain.run, plain.chain, plain.trace) == ("", "", "", "", "")
    assert not any((plain.is_coded, plain.is_chunked, plain.is_local, plain.is_formed))


def test_each_header_is_found() -> None:
    """Whatever its case; of codings all."""
    one = said(
        "origin: http://a", "ORIGIN: http://b", "sec-fetch-site: none", "content-encoding: gzip",
        "Content-Encoding: br", "content-type: a/b", "x-pairproxy-local: TRUE",
    )  # fmt: skip
    assert (one.origins, one.site, one.coding) == (["http://a", "http://b"], "none", "gzip, br")
    assert (one.content_type, one.is_coded, one.is_local) == ("a/b", True, True)


@pytest.mark.parametrize(
    ("name", "told"), [("night job", "night job"), ("x" * 100, "x" * NAME_LENGTH), ("a\tb", "")]
)
def test_names_are_short_and_can_be_shown(name: str, told: str) -> None:
    """Others are none."""
    one = said(f"X-Pairproxy-Run: {name}", f"X-Pairproxy-Chain: {name}")
    assert (one.run, one.chain) == (told, told)


def test_what_an_engine_gets_is_found_once() -> None:
    """Without what is ours."""
    one = said("X-Pairproxy-Run: a", "A: b", "Connection: close")
    assert one.to_engine() == ((b"Host", b"localhost"), (b"A", b"b"))
    assert one.to_engine() is one.to_engine()

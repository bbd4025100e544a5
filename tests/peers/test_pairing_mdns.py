import asyncio
from contextlib import aclosing

import pytest

from pairproxy.core.errors import ConfigError
from pairproxy.peers.announcement import Reader
from pairproxy.peers.pairing_mdns import Candidate, announced, at, candidates, read
from tests.support.running import run_async

LAN = Reader("", 0, frozenset({"192.168.1.2"}))


def txt(text: str) -> bytes:
    """A TXT record of one string."""
    return bytes([len(text)]) + text.encode()


@pytest.mark.parametrize(
    ("text", "port", "addresses", "expected"),
    [
        (txt("n=48"), 11635, ("192.168.1.7",), Candidate(("192.168.1.7",), 11635)),
        (
            txt("n=48"),
            11635,
            ("fe80::1%eth0", "192.168.1.7"),
            Candidate(("192.168.1.7", "fe80::1%eth0"), 11635),
        ),
        (txt("n=49"), 11635, ("192.168.1.7",), None),
        (b"", 11635, ("192.168.1.7",), None),
        (b"\xff\x00\xfe", 11635, ("192.168.1.7",), None),
        (txt("n=48"), 22, ("192.168.1.7",), None),
        (txt("n=48"), None, ("192.168.1.7",), None),
        (txt("n=48"), 11635, ("127.0.0.1", "169.254.169.254", "224.0.0.1", "192.168.1.2", "x"), None),
    ],
)
def test_an_announcement_is_worth_a_few_addresses(
    text: bytes, port: int | None, addresses: tuple[str, ...], expected: Candidate | None
) -> None:
    """Only of this nameplate, never of a port or an address that no packet may make us call."""
    assert read(text, port, addresses, "48", LAN) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.168.1.7", Candidate(("192.168.1.7",), 11635)),
        ("192.168.1.7:4000", Candidate(("192.168.1.7",), 4000)),
        ("ben-ws.local", Candidate(("ben-ws.local",), 11635)),
        ("fe80::1%eth0", Candidate(("fe80::1%eth0",), 11635)),
        ("[fe80::1]", Candidate(("fe80::1",), 11635)),
        ("[fe80::1]:4000", Candidate(("fe80::1",), 4000)),
    ],
)
def test_a_place_can_be_typed(text: str, expected: Candidate) -> None:
    """With or without a port."""
    assert at(text) == expected


@pytest.mark.parametrize("text", ["", ":4000", "host:", "host:99999", "http://user:pw@host", "host:x"])
def test_what_is_no_place_is_told(text: str) -> None:
    """With an example."""
    with pytest.raises(ConfigError, match="--at"):
        at(text)


@pytest.mark.slow
def test_a_nameplate_is_found_and_says_goodbye() -> None:
    """Over multicast on loopback: only the asked one, with port and address; gone when the block is left."""

    async def act() -> None:
        async with (
            announced("48", 41000, is_on_loopback=True) as where,
            announced("49", 41001, is_on_loopback=True),
        ):
            assert where == ("127.0.0.1",)
            async with aclosing(candidates("48", is_on_loopback=True)) as found:
                async for candidate in found:
                    assert candidate == Candidate(("127.0.0.1",), 41000)
                    break
                else:
                    pytest.fail("not found")
        again = [one async for one in candidates("48", is_on_loopback=True, look_s=0.5)]
        assert again == []

    run_async(act())


def test_looking_ends_when_nobody_is_there() -> None:
    """After the given seconds, without an error."""

    async def act() -> None:
        async with asyncio.timeout(15.0):
            assert [one async for one in candidates("07", is_on_loopback=True, look_s=0.2)] == []

    run_async(act())

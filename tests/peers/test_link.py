import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator

import msgspec
import pytest

from pairproxy.config import Limits
from pairproxy.core.events import Event, NodeLost, NodeReported
from pairproxy.peers import rounds
from pairproxy.peers.addresses import Address, PeerAddresses
from pairproxy.peers.link import PeerLink
from pairproxy.upstreams import Upstream
from tests.core.told import B, C
from tests.core.told import document as told_document
from tests.support.engine_scripts import chunk, chunked_head, json_reply, raw
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script, eventually
from tests.support.free_ports import free_port
from tests.support.running import run_async

pytestmark = pytest.mark.timed

LINE = chunk(msgspec.json.encode(told_document(B)) + b"\n")
SPEAKS = raw(chunked_head() + LINE, then="hang")


def address(port: int, source: str = "mdns", host: str = "127.0.0.1") -> Address:
    """Where B may be."""
    return Address(host, port, source)


@contextlib.asynccontextmanager
async def linked(*addresses: Address, silence_s: float = 5.0) -> AsyncIterator[tuple[PeerLink, list[Event]]]:
    """A running link to B that knows these addresses, and what it told."""
    limits = Limits(node_lost_s=silence_s)
    known = PeerAddresses()
    for one in addresses:
        known.add(one)
    told: list[Event] = []
    upstream = Upstream(known, limits=limits)
    link = PeerLink(B, "bert", known, upstream, told.append, lambda: 0.0, limits)
    running = asyncio.create_task(link.run(), name="link")
    try:
        yield link, told
    finally:
        running.cancel()
        await asyncio.wait([running])
        await upstream.close()
    assert running.cancelled()


# --- the link -------------------------------------------------------------------------------------------


def test_it_tells_of_a_peer_as_soon_as_it_is_heard() -> None:
    """Up with its source; every document is told."""

    async def scene() -> None:
        async with FakeEngine(SPEAKS) as peer, linked(address(peer.port)) as (link, told):
            await eventually(lambda: link.is_up)
            assert (link.found_by, link.problem) == ("mdns", None)
            assert told == [NodeReported(0.0, told_document(B))]
            assert peer.requests[0].target == "/pairproxy/state"

    run_async(scene())


def test_without_an_address_it_waits_for_a_hint() -> None:
    """It says so, and connects when somebody tells where the peer is."""

    async def scene() -> None:
        async with FakeEngine(SPEAKS) as peer, linked() as (link, _):
            await eventually(lambda: link.problem == "no address is known yet")
            link.addresses.add(address(peer.port))
            await eventually(lambda: link.is_up)

    run_async(scene())


def test_an_address_that_does_not_work_gives_way_to_the_next() -> None:
    """Old and forged addresses cost a moment, not the peer."""

    async def scene() -> None:
        wrong = [address(free_port(), "remembered") for _ in range(3)]
        async with FakeEngine(SPEAKS) as peer, linked(*wrong, address(peer.port, "static")) as (link, _):
            await eventually(lambda: link.is_up)
            assert link.found_by == "static"
            assert link.addresses.address("/") == ("127.0.0.1", peer.port)

    run_async(scene())


def test_a_peer_that_ends_is_lost_at_once() -> None:
    """When its stream breaks and its address refuses, nobody waits for a heartbeat."""

    async def scene() -> None:
        async with linked(silence_s=600.0) as (link, told):
            async with FakeEngine(SPEAKS) as peer:
                link.addresses.add(address(peer.port))
                await eventually(lambda: link.is_up)
            await eventually(lambda: not link.is_up)
            assert told[-1] == NodeLost(0.0, B)
            assert link.problem is not None
            assert f"127.0.0.1:{peer.port}" in link.problem

    run_async(scene())


def test_addresses_that_swallow_everything_do_not_delay_the_news() -> None:
    """The peer is lost when the address that worked fails, before all others have been tried."""

    async def scene() -> None:
        holes = [address(9, "mdns", f"192.0.2.{number}") for number in range(10)]  # TEST-NET: nobody is there
        async with linked() as (link, _):
            async with FakeEngine(SPEAKS) as peer:
                link.addresses.add(address(peer.port))
                await eventually(lambda: link.is_up)
                for hole in holes:
                    link.addresses.add(hole)
            await eventually(lambda: not link.is_up, 1.0)

    run_async(scene())


def test_a_silent_peer_is_lost_and_comes_back() -> None:
    """Silence counts as gone though the connection is open; the next document brings it back."""

    async def scene() -> None:
        async with FakeEngine(SPEAKS) as peer, linked(address(peer.port), silence_s=0.2) as (link, told):
            await eventually(lambda: NodeLost(0.0, B) in told)
            assert link.problem == "it was silent for 0.2 s"
            await eventually(lambda: link.is_up)
            assert isinstance(told[-1], NodeReported)

    run_async(scene())


def test_a_stream_that_breaks_off_is_taken_up_again_without_a_loss() -> None:
    """A daemon that closed one connection is still there: reconnecting at once is no news to anybody."""

    async def scene() -> None:
        breaks = raw(chunked_head() + LINE, then="close")
        async with FakeEngine(breaks) as peer, linked(address(peer.port)) as (link, told):
            await eventually(lambda: len(peer.connections) >= 3)
            assert link.is_up
            assert NodeLost(0.0, B) not in told

    run_async(scene())


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (json_reply({}, 403), "it answered 403"),
        (raw(chunked_head() + chunk(b"nonsense\n"), then="hang"), "its document cannot be read"),
        (
            raw(chunked_head() + chunk(msgspec.json.encode(told_document(C)) + b"\n"), then="hang"),
            "its document names another node",
        ),
    ],
)
def test_a_peer_that_says_nonsense_is_not_there(script: Script, problem: str) -> None:
    """The reason is shown, nothing is told, and it is not asked again at once."""

    async def scene() -> None:
        async with FakeEngine(script) as peer, linked(address(peer.port)) as (link, told):
            await eventually(lambda: link.problem == problem)
            assert (link.is_up, told, len(peer.requests)) == (False, [], 1)

    run_async(scene())


def test_a_peer_that_refuses_us_is_asked_rarely(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F41: what to do about it is shown, and told once; when somebody did it, we hear soon."""

    async def scene() -> None:
        revoked = b"HTTP/1.1 403 Forbidden\r\nX-Pairproxy-Refused: PeerRevoked\r\nContent-Length: 0\r\n\r\n"
        async with FakeEngine(raw(revoked)) as peer, linked(address(peer.port)) as (link, _):
            await eventually(lambda: "pair the two again" in (link.problem or ""))
            peer.script = raw(chunked_head() + LINE, then="hang")
            assert len(peer.requests) == 1
            link.doubt()
            await eventually(lambda: link.is_up)
            assert len(peer.requests) == 2

    monkeypatch.setattr(rounds, "HINTED_S", 0.3)
    with caplog.at_level("WARNING"):
        run_async(scene())
    assert caplog.text.count("cannot be used: it no longer trusts this machine") == 1


def test_a_peer_that_does_not_know_us_says_nothing() -> None:
    """F3: its TLS lets in nobody that it does not know, and cannot say so; what to do is shown."""

    async def scene() -> None:
        async with FakeEngine(raw(then="close")) as peer, linked(address(peer.port)) as (link, _):
            await eventually(lambda: "pair the two again" in (link.problem or ""))
            assert not link.is_up

    run_async(scene())


def test_a_peer_that_begins_to_say_nonsense_is_lost() -> None:
    """One good document does not keep it up."""

    async def scene() -> None:
        turns = raw(chunked_head() + LINE + chunk(b"nonsense\n"), then="hang")
        async with FakeEngine(turns) as peer, linked(address(peer.port)) as (link, told):
            await eventually(lambda: NodeLost(0.0, B) in told)
            assert not link.is_up

    run_async(scene())


def test_a_flood_of_hints_makes_it_dial_no_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hints shorten a pause to a least one, and no further."""
    monkeypatch.setattr(rounds, "RETRY_FIRST_S", 0.3)
    dials: list[float] = []

    async def refuse(request: ParsedRequest, connection: EngineConnection) -> None:
        dials.append(asyncio.get_running_loop().time())
        connection.reset()

    async def scene() -> None:
        async with FakeEngine(refuse) as peer, linked(address(peer.port)) as (link, _):
            end = asyncio.get_running_loop().time() + 1.0
            while asyncio.get_running_loop().time() < end:
                link.addresses.add(address(peer.port))
                await asyncio.sleep(0.01)

    run_async(scene())
    assert 1 <= len(dials) <= 4


def test_a_hint_ends_a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that was away is found when it announces itself, not when its turn comes."""
    monkeypatch.setattr(rounds, "RETRY_FIRST_S", 60.0)
    monkeypatch.setattr(rounds, "HINTED_S", 0.05)

    async def scene() -> None:
        async with FakeEngine(SPEAKS) as peer, linked(address(free_port())) as (link, _):
            await eventually(lambda: link.problem is not None)
            link.addresses.add(address(peer.port))
            await eventually(lambda: link.is_up)

    run_async(scene())


def test_what_comes_with_a_refusal_is_told_while_the_peer_is_there() -> None:
    """Not before it was heard, nor what is no document of its own."""

    async def scene() -> None:
        body = msgspec.json.encode(dataclasses.replace(told_document(B), sequence=7))
        async with FakeEngine(SPEAKS) as peer, linked() as (link, told):
            link.hear_refusal(body)
            assert told == []
            link.addresses.add(address(peer.port))
            await eventually(lambda: len(told) == 1)
            link.hear_refusal(b"{}")
            link.hear_refusal(msgspec.json.encode(told_document(C)))
            link.hear_refusal(body)
            first, second = told
            assert isinstance(first, NodeReported)
            assert isinstance(second, NodeReported)
            assert (first.document.sequence, second.document.sequence) == (1, 7)

    run_async(scene())


def test_every_document_is_told() -> None:
    """Also those after the first."""

    async def scene() -> None:
        lines = [
            chunk(msgspec.json.encode(dataclasses.replace(told_document(B), sequence=n)) + b"\n")
            for n in (1, 2)
        ]
        script = raw(chunked_head() + lines[0], lines[1], then="hang")
        async with FakeEngine(script) as peer, linked(address(peer.port)) as (_, told):
            await eventually(lambda: len(told) == 2)

    run_async(scene())

"""A peer's paths: which one is believed, when another is tried, and what becomes of a dead one."""

import asyncio
import contextlib
import dataclasses
import itertools
import logging
from collections.abc import AsyncIterator

import msgspec
import pytest

from pairproxy.config import Limits
from pairproxy.core.errors import UpstreamError
from pairproxy.core.events import Event, NodeLost, NodeReported
from pairproxy.core.models import NodeId
from pairproxy.peers import rounds
from pairproxy.peers.addresses import Address, PeerAddresses
from pairproxy.peers.link import PeerLink
from pairproxy.security import tls
from pairproxy.security.identity import short_id
from pairproxy.upstreams import Upstream
from tests.core.told import B
from tests.core.told import document as told_document
from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, raw
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.node import identity
from tests.support.running import run_async

pytestmark = pytest.mark.timed
DOCUMENT = told_document(B)
LINE = chunk(msgspec.json.encode(DOCUMENT) + b"\n")
SPEAKS = raw(chunked_head() + LINE, then="hang")
LOST_S = 2.0  # in these tests: silent for 0.8 s is doubtful


def at(port: int, source: str = "mdns") -> Address:
    """A path to the peer."""
    return Address("127.0.0.1", port, source)


@contextlib.asynccontextmanager
async def linked(
    *addresses: Address, node: NodeId = B, secured: bool = False, lost_s: float = LOST_S
) -> AsyncIterator[tuple[PeerLink, list[Event]]]:
    """A running link that knows these addresses, the first one best, and what it told."""
    known, told, limits = PeerAddresses(), [], Limits(node_lost_s=lost_s)  # type: ignore[var-annotated]
    for one in reversed(addresses):
        known.add(one)
    pin = identity("ben").certificate if secured else None
    context = tls.client_context(identity("anna"), pin) if pin else None
    upstream = Upstream(known, limits=limits, tls=context, pin=pin)
    link = PeerLink(node, "ben-ws", known, upstream, told.append, lambda: 0.0, limits)
    running = asyncio.create_task(link.run(), name="link")
    try:
        yield link, told
    finally:
        running.cancel()
        await asyncio.wait([running])
        await upstream.close()


async def talks(request: ParsedRequest, connection: EngineConnection) -> None:
    """A peer in good health: a document every 0.1 s."""
    await connection.send(chunked_head())
    for number in range(1, 10_000):
        document = dataclasses.replace(DOCUMENT, sequence=number)
        await connection.send(chunk(msgspec.json.encode(document) + b"\n"), gap_s=0.1)


def test_a_silent_path_is_left_for_one_that_works_before_the_node_is_lost() -> None:
    """F24, F27: one of two interfaces dies: no loss is told, and what hung on the dead one is broken off."""

    async def scene() -> None:
        async with (
            FakeEngine(SPEAKS) as first,
            FakeEngine(talks) as second,
            linked(at(first.port), at(second.port)) as (link, told),
        ):
            await eventually(lambda: link.is_up)
            assert link.addresses.best == at(first.port)
            first.stop_listening()  # and says nothing more on what is open
            await eventually(lambda: link.addresses.best == at(second.port))
            await eventually(lambda: len(told) > 3)
            await eventually(lambda: first.open_connections == 0)
            assert NodeLost(0.0, B) not in told
            assert link.is_up

    run_async(scene())


def test_a_stream_that_hangs_is_asked_for_anew_where_the_peer_still_answers() -> None:
    """F29: after a sleep the old connection may be dead though the peer is well: nothing is lost."""

    async def scene() -> None:
        async with FakeEngine(SPEAKS) as peer, linked(at(peer.port)) as (link, told):
            await eventually(lambda: len(told) == 1)
            await eventually(lambda: len(told) == 2)
            assert all(isinstance(event, NodeReported) for event in told)
            assert link.is_up
            await eventually(lambda: peer.open_connections == 1)
            assert len(peer.connections) == 2

    run_async(scene())


def test_a_peer_that_is_too_busy_for_a_moment_is_not_lost() -> None:
    """F44: it takes connections and drops them; until its heartbeat is overdue it is asked again."""

    async def scene() -> None:
        asked = 0

        async def busy(request: ParsedRequest, connection: EngineConnection) -> None:
            nonlocal asked
            asked += 1
            if asked in (2, 3):
                link.doubt()
                connection.reset()
            else:
                await connection.send(chunked_head() + LINE)
                if asked == 1:
                    connection.close()

        async with FakeEngine(busy) as peer, linked(at(peer.port), lost_s=60.0) as (link, told):
            await eventually(lambda: len(told) == 2)
            assert (asked, NodeLost(0.0, B) in told) == (4, False)

    run_async(scene())


def test_who_answers_no_more_anywhere_is_lost_in_time() -> None:
    """F8, F10, F21: dials that are accepted and never answered do not lengthen the life of a silent node."""

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        async with FakeEngine(SPEAKS) as peer, linked(at(peer.port), lost_s=1.0) as (link, told):
            await eventually(lambda: len(told) == 1)
            heard_at = link._heard_at
            peer.script = raw(then="hang")
            await eventually(lambda: NodeLost(0.0, B) in told)
            assert told[-1] == NodeLost(0.0, B)
            assert link._heard_at == heard_at
            assert loop.time() - heard_at >= 1.0
            assert link.problem == "it was silent for 1 s"

    run_async(scene())


@pytest.mark.parametrize("how", ["doubt", "wake"])
def test_doubt_is_seen_to_at_once_and_changes_nothing_for_a_peer_that_is_well(how: str) -> None:
    """I02, I10: a goodbye, a request that failed, a sleep: the peer is asked anew, and it stays."""

    async def scene() -> None:
        async with FakeEngine(SPEAKS) as peer, linked(at(peer.port), lost_s=60.0) as (link, told):
            await eventually(lambda: len(told) == 1)
            if how == "wake":
                await link.upstream.dial(("127.0.0.1", peer.port))  # one that idles: not to be used again
                idle = peer.connections[-1]
                link.wake()
                await idle.peer_left()
            else:
                link.doubt()
            await eventually(lambda: len(told) == 2)
            assert NodeLost(0.0, B) not in told
            assert link.is_up

    run_async(scene())


def test_another_key_at_an_announced_address_gets_nothing_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F3, F23, I01: the pin decides; the peer is used where it is, and the log says who answered where."""

    async def scene() -> None:
        anna, ben, rogue = identity("anna"), identity("ben"), identity("rogue")
        node = ben.device_id
        line = chunk(msgspec.json.encode(dataclasses.replace(DOCUMENT, node=node)) + b"\n")
        good = tls.server_context(ben, [anna.certificate])
        bad = tls.server_context(rogue, [anna.certificate])
        speaks = raw(chunked_head() + line, then="hang")
        async with FakeEngine(speaks, tls=good) as peer, FakeEngine(speaks, tls=bad) as other:
            places = at(other.port), at(peer.port)
            async with linked(*places, node=node, secured=True) as (link, told):
                await eventually(lambda: link.is_up)
                await eventually(lambda: len(told) >= 2)  # found anew: the wrong one is tried last
                assert link.addresses.best == at(peer.port)
                assert link.addresses.dialled()[-1] == at(other.port)
            assert other.requests == []
            assert all(not one.received for one in other.connections)
            said = [one.getMessage() for one in caplog.records if "another key" in one.getMessage()]
            assert len(said) == 1
            assert f"ben-ws ({short_id(node)}) answered with another key at 127.0.0.1:{other.port}" in said[0]

    with caplog.at_level(logging.WARNING, logger="pairproxy"):
        run_async(scene())


def test_only_another_key_anywhere_is_the_problem_that_is_shown() -> None:
    """F3: status says why the peer is not there."""

    async def scene() -> None:
        context = tls.server_context(identity("rogue"), [identity("anna").certificate])
        ben = identity("ben").device_id
        async with (
            FakeEngine(SPEAKS, tls=context) as other,
            linked(at(other.port), node=ben, secured=True) as (link, told),
        ):
            await eventually(lambda: "Not the paired key" in (link.problem or ""))
            assert told == []

    run_async(scene())


@pytest.mark.parametrize("withheld", ["", "owner"])
def test_a_clean_stop_is_known_at_once_and_told_as_one(withheld: str) -> None:
    """Its last document says that it drains; with nobody there it was stopped, with another key pair anew.

    Of one that only withheld its slots that is not said: it may have crashed, or its machine sleeps.
    """

    async def scene() -> None:
        anna, ben = identity("anna"), identity("ben")
        leaving = dataclasses.replace(DOCUMENT, node=ben.device_id, is_draining=True, withheld=withheld)
        good = tls.server_context(ben, [anna.certificate])
        bad = tls.server_context(identity("rogue"), [anna.certificate])

        async def stops(request: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(chunked_head() + chunk(msgspec.json.encode(leaving) + b"\n"))
            peer.stop_listening()
            await connection.send(LAST_CHUNK)
            connection.close()

        peer = FakeEngine(stops, tls=good)
        async with peer, linked(at(peer.port), node=leaving.node, secured=True, lost_s=60.0) as (link, told):
            await eventually(lambda: NodeLost(0.0, leaving.node) in told)
            assert (link.problem == "it was stopped") is not bool(withheld)
            assert isinstance(told[-2], NodeReported)
            assert told[-2].document.is_draining
            async with FakeEngine(SPEAKS, tls=bad, port=peer.port):
                link.retry()
                await eventually(lambda: "Not the paired key" in (link.problem or ""))

    run_async(scene())


def test_who_is_gone_for_long_is_asked_rarely_and_heard_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses grow to a minute and never end; a call or an announcement of the peer cuts one short."""
    for name, value in (("RETRY_FIRST_S", 0.01), ("RETRY_LONGEST_S", 0.02), ("LONG_GONE_S", 0.1)):
        monkeypatch.setattr(rounds, name, value)
    monkeypatch.setattr(rounds, "HINTED_S", 0.01)
    tries: list[float] = []

    class Watched(PeerAddresses):
        def dialled(self) -> list[Address]:
            if asyncio.current_task() is not None and asyncio.current_task().get_name() == "link":  # type: ignore[union-attr]
                tries.append(asyncio.get_running_loop().time())
            return super().dialled()

    monkeypatch.setattr("tests.peers.test_link_paths.PeerAddresses", Watched)

    async def scene() -> None:
        async with FakeEngine(SPEAKS) as peer, linked() as (link, _):
            began = asyncio.get_running_loop().time()
            await eventually(lambda: len(tries) > 5)
            await eventually(lambda: asyncio.get_running_loop().time() - tries[-1] > 0.2)
            pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
            assert max(pauses) > 0.03
            assert tries[-1] - began >= 0.1
            link.addresses.add(at(peer.port, "inbound"))
            await eventually(lambda: link.is_up)
            assert link.found_by == "inbound"

    run_async(scene())


def test_what_proved_itself_is_told_to_be_kept() -> None:
    """F28: the address is remembered when the peer proved its key there, not when somebody named it."""

    async def scene() -> None:
        kept: list[int] = []
        async with FakeEngine(SPEAKS) as peer:
            known, limits = PeerAddresses(), Limits()
            upstream = Upstream(known, limits=limits)
            link = PeerLink(
                B, "b", known, upstream, lambda _: None, lambda: 0.0, limits, lambda: kept.append(1)
            )
            running = asyncio.create_task(link.run())
            known.add(at(1))
            await eventually(lambda: link.problem is not None)
            assert kept == []
            known.add(at(peer.port))
            await eventually(lambda: link.is_up)
            assert (kept, known.proved) == ([1], (at(peer.port),))
            running.cancel()
            await asyncio.wait([running])
            with contextlib.suppress(UpstreamError):
                await upstream.close()

    run_async(scene())

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from pairproxy import __version__
from pairproxy.config import Limits
from pairproxy.core.documents import PrefixNews, StateDocument, Wanted
from pairproxy.core.events import NodeReported, RequestArrived, TimePassed
from pairproxy.core.models import NodeId
from pairproxy.core.prefix_news import mark_of
from pairproxy.peers import exchange
from pairproxy.peers.exchange import MOST_STREAMS, Publisher, Publishing, read_document, subscribe
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.request import HttpRequest
from pairproxy.proxy.server import PagePort
from pairproxy.responses import StreamResponse
from pairproxy.upstreams import Upstream
from tests.core.told import GPU, A, B, C, M, Told, ask
from tests.core.told import document as told_document
from tests.support.fake_engine import eventually
from tests.support.node import Address
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

LIMIT = Limits().state_document_bytes
GOOD = told_document(B)
ARRIVED = RequestArrived(0.0, ask("r"))


@contextlib.asynccontextmanager
async def heard_on(publisher: Publisher) -> AsyncIterator[tuple[PagePort, int]]:
    """A port on which B hears a publisher, and its number."""

    async def handle(request: HttpRequest) -> StreamResponse:
        return await publisher.stream(request, B)

    port = PagePort(handle, Limits())
    (sock,) = bind("127.0.0.1", 0, "")
    await port.start(sock)
    try:
        yield port, port_of(sock)
    finally:
        await port.stop()


@contextlib.asynccontextmanager
async def published(
    told: Told, interval_s: float
) -> AsyncIterator[tuple[Publisher, Callable[[], AsyncIterator[StateDocument]]]]:
    """A's publisher on a port, and how to subscribe to it as B."""
    publisher = Publisher(told.scheduler, "anna", lambda: told.at, interval_s)
    async with heard_on(publisher) as (_, number):
        upstream = Upstream(Address(number), limits=Limits())
        try:
            yield publisher, lambda: subscribe(upstream, A, 5.0, LIMIT)
        finally:
            await upstream.close()


async def next_of(documents: AsyncIterator[StateDocument], deadline_s: float = 30.0) -> StateDocument:
    """The next document, soon."""
    async with asyncio.timeout(deadline_s):
        return await anext(documents)


def test_the_document_comes_at_once_and_again_every_interval() -> None:
    """It is the heartbeat: same epoch, growing sequence, also when nothing happens."""

    async def scene() -> list[StateDocument]:
        async with published(Told(), 0.05) as (_, subscribed):
            documents = subscribed()
            return [await next_of(documents) for _ in range(4)]

    got = run_async(scene())
    assert len({document.epoch for document in got}) == 1
    assert [document.sequence for document in got] == [1, 2, 3, 4]
    assert {(document.node, document.name) for document in got} == {(A, "anna")}
    assert got[0].engines[0].engine == GPU


def test_a_reader_hears_of_the_version_and_the_clock_and_is_seen_to_listen() -> None:
    """What `pairproxy doctor` tells of peers: which pairproxy, how far the clock, who hears whom."""

    async def scene() -> tuple[list[Publishing], bool, bool]:
        told = Told()
        publisher = Publisher(told.scheduler, "anna", lambda: told.at, 0.05)
        heard: list[Publishing] = []
        async with heard_on(publisher) as (_, number):
            upstream = Upstream(Address(number), limits=Limits())
            documents = subscribe(upstream, A, 5.0, LIMIT, heard.append)
            before = publisher.is_read_by(B)
            await next_of(documents)
            after = publisher.is_read_by(B)
            await upstream.close()
        return heard, before, after

    ((version, ahead_s),), before, after = run_async(scene())
    assert (version, before, after) == (__version__, False, True)
    assert ahead_s is not None
    assert abs(ahead_s) < 5.0


def test_a_change_is_published_at_once() -> None:
    """A request that starts shows in the next document long before the interval is over."""

    async def scene() -> StateDocument:
        told = Told()
        async with published(told, 60.0) as (publisher, subscribed):
            documents = subscribed()
            assert (await next_of(documents)).engines[0].in_flight == 0
            commands = told.arrives(ask("r"))
            publisher.heard(ARRIVED, commands)
            return await next_of(documents)

    assert run_async(scene()).engines[0].in_flight == 1


def test_a_reader_hears_of_prefixes_once() -> None:
    """All that are held at first, then what is new; a reader that comes again hears all of them again."""

    def reads(told: Told, name: str, prefix: tuple[int, ...]) -> None:
        told.arrives(ask(name, prefix=prefix))
        told.begins(name)
        told.finishes(name)

    async def scene() -> list[PrefixNews | None]:
        told = Told()
        reads(told, "r", (1, 2))
        async with published(told, 0.05) as (_, subscribed):
            documents = subscribed()
            got = [await next_of(documents) for _ in range(2)]
            reads(told, "s", (1, 3))
            while not (news := await next_of(documents)).engines[0].prefixes:
                pass  # one that was under way before
            got += [news, await next_of(subscribed())]
        return [document.engines[0].prefixes for document in got]

    first, second, third, again = run_async(scene())
    held = [one ^ mark_of(M) for one in (2, 1, 3)]
    assert first == PrefixNews(2, 0, (held[0],))
    assert second is None
    assert third == PrefixNews(3, 2, (held[2], held[1]))
    assert again == PrefixNews(3, 0, tuple(held[:1] + held[2:] + held[1:2]))


def test_a_reader_that_takes_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection ends; a wait for it would last until the system gives it up."""
    monkeypatch.setattr(exchange, "UNREAD_S", 0.2)

    async def scene() -> None:
        name = "x" * 1_000_000  # what the system keeps for a reader is full soon
        publisher = Publisher(Told().scheduler, name, lambda: 0.0, 0.001)
        async with heard_on(publisher) as (port, number), await RawClient.open(number) as deaf:
            await deaf.send(request("GET /pairproxy/state HTTP/1.1", None))
            await deaf.head()
            deaf.pause()
            await eventually(lambda: port.connections == 0)

    run_async(scene())


def test_a_burst_is_one_document_and_news_of_others_is_none() -> None:
    """Twenty events within a moment are published together; hearing of a peer publishes nothing."""

    async def scene() -> int:
        async with published(Told(), 60.0) as (publisher, subscribed):
            documents = subscribed()
            await next_of(documents)
            for _ in range(20):
                publisher.heard(ARRIVED, [])
            sequence = (await next_of(documents)).sequence
            publisher.heard(NodeReported(0.0, GOOD), [])
            publisher.heard(TimePassed(0.0), [])
            with pytest.raises(TimeoutError):
                await next_of(documents, 0.3)
            return sequence

    assert run_async(scene()) == 2


@pytest.mark.parametrize("origin", [B, C])
def test_pressing_news_is_published_at_once_to_whom_it_concerns(
    origin: NodeId, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B hears that it is promised a slot before the pause of a burst is over; that C is can wait."""
    monkeypatch.setattr(exchange, "COALESCE_S", 60.0)

    async def scene() -> None:
        told = Told()
        async with published(told, 60.0) as (publisher, subscribed):
            documents = subscribed()
            await next_of(documents)
            wanted = (Wanted(M, 1, 1.0, 1.0, 0.0, (), 1),)
            news = NodeReported(0.0, dataclasses.replace(told_document(origin), wanted=wanted))
            publisher.heard(news, told.tell(news))
            if origin == B:
                (promise,) = (await next_of(documents)).engines[0].promises
                assert promise.origin == B
            else:
                with pytest.raises(TimeoutError):
                    await next_of(documents, 0.2)

    run_async(scene())


def test_a_refusal_carries_a_document_that_is_newer_than_the_streams_last() -> None:
    """Both count on, so that a reader knows which of the two is the truth."""
    publisher = Publisher(Told().scheduler, "anna", lambda: 0.0, 1.0)
    first = publisher.document_for(B)
    second = read_document(publisher.refusal(B), A)
    assert (second.epoch, second.sequence) == (first.epoch, first.sequence + 1)


def test_each_life_has_its_own_epoch() -> None:
    """What was known of a daemon before its restart is void."""
    told = Told()
    lives = [Publisher(told.scheduler, "anna", lambda: 0.0, 1.0).document_for(B).epoch for _ in range(2)]
    assert lives[0] != lives[1]


def test_a_reader_that_leaves_is_forgotten() -> None:
    """Nothing is kept for a peer that is gone."""

    async def scene() -> None:
        async with published(Told(), 0.05) as (publisher, subscribed):
            documents = subscribed()
            await next_of(documents)
            assert len(publisher._readers) == 1
            await documents.aclose()  # type: ignore[attr-defined]
            await eventually(lambda: not publisher._readers)

    run_async(scene())


def test_a_peer_has_a_few_streams_and_the_newest_go_on() -> None:
    """Each is a document for whatever happens here: who opens one after another ends its own first ones."""

    async def scene() -> None:
        async with published(Told(), 0.05) as (_, subscribed):
            streams = [subscribed() for _ in range(MOST_STREAMS + 2)]
            for one in streams:
                await next_of(one)
            async with asyncio.timeout(5.0):
                for old in streams[:2]:
                    assert {one.node async for one in old} <= {A}
            for new in streams[2:]:
                for _ in range(3):
                    await next_of(new)

    run_async(scene())


@pytest.mark.parametrize(
    ("address", "host"),
    [
        (("10.77.0.1", 40000), "10.77.0.1"),
        (("2001:db8::1", 40000, 0, 0), "2001:db8::1"),
        (("fe80::1", 40000, 0, 2), "fe80::1%2"),
        (("fe80::1%eth0", 40000, 0, 2), "fe80::1%eth0"),
    ],
)
def test_the_address_of_a_caller_keeps_its_zone(address: tuple[object, ...], host: str) -> None:
    """F30: a link-local address is of use only with the interface at which it was seen."""
    assert exchange._host(address) == host


def test_a_document_of_another_version_is_read_as_far_as_it_is_known() -> None:
    """An older node does not say what it withholds; a newer one may say more than this one knows."""
    told = msgspec.json.decode(msgspec.json.encode(told_document(B)))
    del told["withheld"]
    assert read_document(msgspec.json.encode(told), B).withheld == ""
    newer = msgspec.json.encode({**told, "withheld": "moving-house", "mood": ["fine"]})
    assert read_document(newer, B).withheld == "moving-house"

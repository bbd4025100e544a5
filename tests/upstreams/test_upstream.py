"""Sending: what comes back before the first body byte, and which error it is if nothing does."""

import asyncio
import contextlib
import socket

import pytest

from pairproxy.config import Limits
from pairproxy.core.errors import BadRequest, BrokenReply, ReplyTruncated, Unreachable
from pairproxy.upstreams import Outgoing, Upstream, host_header
from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, json_bytes, raw
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.free_ports import free_port
from tests.support.relaying import GET, LIMITS, Sink, post, serving
from tests.support.running import run_async

OK = json_bytes({"ok": 1})


class At:
    """An endpoint at a fixed address."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)

    def address(self, path: str) -> tuple[str, int]:
        return self._address


def test_the_request_arrives_as_it_was_given() -> None:
    """Not a byte is added, changed or reordered."""

    async def talk() -> None:
        async with serving(raw(OK)) as (engine, upstream):
            body = '{"model" : "x", "é":1}'.encode()
            request = post(body, "//api/chat%2F?a=b&&c")
            await upstream.send(request)
            expected = (
                b"POST //api/chat%2F?a=b&&c HTTP/1.1\r\nHost: engine\r\nContent-Length: 23\r\n\r\n" + body
            )
            assert bytes(engine.connections[0].received) == expected
            await upstream.send(Outgoing("GET", "/", (), version=(1, 0)))
            assert engine.requests[1].raw == b"GET / HTTP/1.0\r\n\r\n"

    run_async(talk())


def test_the_endpoint_is_asked_with_the_path_alone() -> None:
    """An engine may answer some paths on another port; the query is not its business."""

    async def talk() -> None:
        asked: list[str] = []
        async with FakeEngine(raw(OK)) as engine, FakeEngine(raw(json_bytes({}, 404))) as other:

            class Two:
                def address(self, path: str) -> tuple[str, int]:
                    asked.append(path)
                    return (other if path == "/other" else engine).address()

            upstream = Upstream(Two(), limits=LIMITS)
            assert (await upstream.send(Outgoing("GET", "/one?x=/other"))).status == 200
            assert (await upstream.send(Outgoing("GET", "/other"))).status == 404
            assert asked == ["/one", "/other"]
            await upstream.close()

    run_async(talk())


def test_nobody_listening_is_unreachable() -> None:
    """F1: refused at once, and the sentence names the place."""

    async def talk() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            host, port = taken.getsockname()
            upstream = Upstream(At(host, port), limits=LIMITS)
            with pytest.raises(Unreachable, match=f"127.0.0.1:{port}") as caught:
                await upstream.send(GET)
            assert caught.value.may_retry
            assert caught.value.__suppress_context__

    run_async(talk())


def test_a_host_that_is_silent_is_unreachable_after_the_connect_timeout() -> None:
    """F2: a full backlog drops connection attempts as a vanished host does."""

    async def talk() -> None:
        with socket.socket() as full, contextlib.ExitStack() as others:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for _ in range(8):  # fill the backlog; what does not fit is dropped in silence
                one = others.enter_context(socket.socket())
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            upstream = Upstream(At(*full.getsockname()), limits=Limits(connect_timeout_s=0.2))
            started = asyncio.get_running_loop().time()
            with pytest.raises(Unreachable):
                await upstream.send(GET)
            assert 0.15 < asyncio.get_running_loop().time() - started < 5.0

    run_async(talk())


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70 + ".invalid", "999.1.1.1"])
def test_a_name_that_leads_nowhere_is_unreachable(host: str) -> None:
    """Whatever the resolver says."""
    with pytest.raises(Unreachable):
        run_async(Upstream(At(host, 80), limits=LIMITS).send(GET))


def test_a_host_name_is_resolved() -> None:
    """localhost may be ::1 first; the engine behind 127.0.0.1 is found."""

    async def talk() -> None:
        async with FakeEngine(raw(OK)) as engine:
            upstream = Upstream(At("localhost", engine.port), limits=LIMITS)
            assert (await upstream.send(GET)).status == 200
            await upstream.close()

    run_async(talk())


def test_a_request_that_would_be_two_is_never_sent() -> None:
    """It is refused before a connection is made."""

    async def talk() -> None:
        async with serving(raw(OK)) as (engine, upstream):
            with pytest.raises(BadRequest):
                await upstream.send(Outgoing("GET", "/ HTTP/1.1\r\n\r\nGET /"))
            assert engine.connections == []

    run_async(talk())


def test_fetch_is_one_small_exchange() -> None:
    """It adds Host and Content-Length and decodes the body."""

    async def talk() -> None:
        async with serving(raw(chunked_head() + chunk(b"12") + chunk(b"3") + LAST_CHUNK)) as (
            engine,
            upstream,
        ):
            got = await upstream.fetch(
                "POST", "/api/show", body=b"{}", headers=((b"A", b"b"),), limit_bytes=3, timeout_s=5
            )
            assert got == (200, b"123")
            request = engine.requests[0]
            assert request.headers == [
                (b"Host", engine.url[7:].encode()),
                (b"Content-Length", b"2"),
                (b"A", b"b"),
            ]
            await upstream.fetch("GET", "/", limit_bytes=3, timeout_s=5)
            assert engine.requests[1].header("Content-Length") is None
            with pytest.raises(BrokenReply):
                await upstream.fetch("GET", "/", limit_bytes=2, timeout_s=5)

    run_async(talk())


@pytest.mark.parametrize("pieces", [(), (chunked_head() + chunk(b"1"),)])
def test_fetch_gives_up_after_its_timeout(pieces: tuple[bytes, ...]) -> None:
    """Silence before or in the body is a BrokenReply, and the connection is dropped."""

    async def talk() -> None:
        async with serving(raw(*pieces, then="hang")) as (engine, upstream):
            with pytest.raises(BrokenReply, match=r"within 0\.05 s"):
                await upstream.fetch("GET", "/", limit_bytes=100, timeout_s=0.05)
            await engine.connections[0].peer_left()

    run_async(talk())


def test_close_ends_idle_and_busy_connections() -> None:
    """Replies under way fail, nothing can be sent any more, and no connection is left."""

    async def talk() -> None:
        async with FakeEngine(raw(OK)) as engine:
            upstream = Upstream(engine, limits=LIMITS)
            await upstream.send(GET)
            engine.script = raw(chunked_head() + chunk(b"a"), then="hang")
            reply = await upstream.send(GET)
            relay = asyncio.create_task(Sink().relay(reply))
            await asyncio.sleep(0)
            await upstream.close()
            with pytest.raises(ReplyTruncated):
                await relay
            with pytest.raises(Unreachable):
                await upstream.send(GET)
            await eventually(lambda: engine.open_connections == 0)
            await upstream.close()

    run_async(talk())


def test_many_at_once_each_get_their_own_answer() -> None:
    """Under load, with reuse, no reply is ever somebody else's."""

    async def talk() -> None:
        async def script(request: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(chunked_head())
            for part in (request.target.encode(), request.body):
                await connection.send(chunk(part), gap_s=0.001)
            await connection.send(LAST_CHUNK)

        async def one(upstream: Upstream, number: int) -> None:
            for turn in range(10):
                name = f"/{number}/{turn}"
                sink = Sink()
                await sink.relay(await upstream.send(post(name.encode() * 50, name)))
                assert sink.body == name.encode() * 51

        async with serving(script) as (engine, upstream):
            await asyncio.gather(*(one(upstream, number) for number in range(50)))
            assert len(engine.connections) <= 60

    run_async(talk())


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (("127.0.0.1", 80), b"127.0.0.1:80"),
        (("::1", 80), b"[::1]:80"),
        (("fe80::1%eth0", 80), b"[fe80::1]:80"),
        (("box", 1), b"box:1"),
    ],
)
def test_the_host_header_of_an_address(address: tuple[str, int], expected: bytes) -> None:
    """Brackets around IPv6, and no zone, which means nothing to the other side."""
    assert host_header(address) == expected


def test_dialling_leaves_a_connection_for_the_next_request() -> None:
    """Who was dialled is asked over that connection; nothing was sent on it before."""

    async def talk() -> None:
        async with serving(raw(OK)) as (engine, upstream):
            await upstream.dial(engine.address())
            assert engine.requests == []
            await upstream.send(GET)
            assert (len(engine.connections), len(engine.requests)) == (1, 1)
            await upstream.dial(engine.address())
            upstream.drop_idle()
            await eventually(lambda: engine.open_connections == 0)
            with pytest.raises(Unreachable):
                await upstream.dial(("127.0.0.1", free_port()))

    run_async(talk())


def test_connections_of_a_dead_address_are_dropped_and_others_stay() -> None:
    """F26: what came over them breaks off at once, instead of when TCP gives up."""

    async def talk() -> None:
        async with serving(raw(chunked_head() + chunk(b"a"), then="hang")) as (engine, upstream):
            reply = await upstream.send(GET)
            relay = asyncio.create_task(Sink().relay(reply))
            await asyncio.sleep(0)
            upstream.drop(lambda connection: connection.local_host != "127.0.0.1")
            assert engine.open_connections == 1
            upstream.drop(lambda connection: connection.local_host == "127.0.0.1")
            with pytest.raises(ReplyTruncated):
                await relay
            await eventually(lambda: engine.open_connections == 0)

    run_async(talk())


def test_a_request_that_found_no_way_is_told() -> None:
    """Whoever knows the addresses can look at once whether the place is still there."""

    async def talk() -> None:
        failures: list[str] = []
        port = free_port()
        upstream = Upstream(At("127.0.0.1", port), limits=LIMITS, failed=lambda: failures.append("no way"))
        with pytest.raises(Unreachable):
            await upstream.send(GET)
        assert failures == ["no way"]

    run_async(talk())

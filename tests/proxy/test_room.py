"""Who has a place at a port: who is idle gives way to who comes, who is at work never."""

import asyncio
import socket

import pytest

from pairproxy.config import Limits
from pairproxy.core.errors import QueueFull
from pairproxy.descriptors import Descriptors
from pairproxy.proxy import server
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.request import HttpRequest
from pairproxy.proxy.server import PagePort
from pairproxy.responses import Response, StreamResponse
from pairproxy.security import tls
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.node import Node, identity
from tests.support.open_ports import hello
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

DONE = scripts.ollama_chat([{"done": True}])
TAGS = request("GET /api/tags HTTP/1.1", None)


def test_the_longest_idle_client_gives_way() -> None:
    """Of 300 idle connections as many stay as there are places, the latest; each of them is served."""

    async def main() -> None:
        async with FakeEngine(DONE) as engine, Node(engine, limits=Limits(connections=8)) as node:
            clients = [await RawClient.open(node.port) for _ in range(300)]
            for client in clients[:292]:
                assert await client.end() == b""
            for client in clients[292:]:
                assert (await client.ask(request())).status == 200
            await eventually(lambda: node.client_port.connections == 8)
            for client in clients:
                client.leave()

    run_async(main())


def test_one_that_has_just_been_used_is_kept() -> None:
    """Idle time counts from the last answer, not from the beginning of the connection."""

    async def main() -> None:
        async with FakeEngine(DONE) as engine, Node(engine, limits=Limits(connections=2)) as node:
            old, silent = [await RawClient.open(node.port) for _ in range(2)]
            await old.ask(TAGS)
            new = await RawClient.open(node.port)
            assert await silent.end() == b""
            assert [(await client.ask(TAGS)).status for client in (old, new)] == [200, 200]
            for client in (old, silent, new):
                client.leave()

    run_async(main())


def test_a_crowd_that_comes_at_once_gets_no_more_places() -> None:
    """Who takes the place of one that was too many is too many as well: of each pair one had got in."""

    async def main() -> None:
        go_on = asyncio.Event()

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await go_on.wait()
            await connection.send(scripts.json_bytes({"done": True}))

        async with FakeEngine(script) as engine, Node(engine, slots=9, limits=Limits(connections=2)) as node:
            busy = [await RawClient.open(node.port) for _ in range(2)]
            for client in busy:
                await client.send(request())
            await eventually(lambda: len(engine.requests) == 2)
            for _ in range(4):
                silent = await RawClient.open(node.port)
                await eventually(lambda: node.client_port.connections == 3)
                late = await RawClient.open(node.port)
                assert await silent.end() == b""
                assert (await late.ask(request())).status == 503
                await eventually(lambda: node.client_port.connections == 2)
                for client in (silent, late):
                    client.leave()
            go_on.set()
            assert [(await client.reply()).status for client in busy] == [200, 200]
            for client in busy:
                client.leave()

    run_async(main())


def test_who_is_at_work_stays_and_the_late_one_hears_so() -> None:
    """No reply under way is ended for a newcomer; who is one too many is answered 503 and closed."""

    async def main() -> None:
        go_on = asyncio.Event()

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await go_on.wait()
            await connection.send(scripts.json_bytes({"done": True}))

        async with FakeEngine(script) as engine, Node(engine, slots=2, limits=Limits(connections=2)) as node:
            busy = [await RawClient.open(node.port) for _ in range(2)]
            for client in busy:
                await client.send(request())
            await eventually(lambda: len(engine.requests) == 2)
            late = await RawClient.open(node.port)
            reply = await late.ask(request())
            assert (reply.status, reply.header("Retry-After")) == (503, b"1")
            assert await late.end() == b""
            go_on.set()
            assert [(await client.reply()).status for client in busy] == [200, 200]
            again = await RawClient.open(node.port)
            assert (await again.ask(request())).status == 200
            for client in (*busy, late, again):
                client.leave()

    run_async(main())


def test_who_came_late_and_got_a_place_keeps_it() -> None:
    """In the next crowd the newest is one too many, and not who has a place since the last one."""

    async def main() -> None:
        may_answer = asyncio.Semaphore(0)

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await may_answer.acquire()
            await connection.send(scripts.json_bytes({"done": True}))

        async with FakeEngine(script) as engine, Node(engine, limits=Limits(connections=1)) as node:

            async def joined_at_work(client: RawClient, number: int) -> RawClient:
                await client.send(request())
                await eventually(lambda: len(engine.requests) == number)
                late = await RawClient.open(node.port)
                await eventually(lambda: node.client_port.connections == 2)
                may_answer.release()
                assert (await client.reply()).status == 200
                return late

            first = await RawClient.open(node.port)
            second = await joined_at_work(first, 1)
            first.leave()
            await eventually(lambda: node.client_port.connections == 1)
            third = await joined_at_work(second, 2)
            may_answer.release()
            assert (await second.ask(request())).status == 200
            assert (await third.ask(request())).status == 503
            for client in (second, third):
                client.leave()

    run_async(main())


def test_a_reply_that_is_not_on_the_wire_yet_is_not_lost() -> None:
    """A client that reads slowly is no idle one, although its request was answered long ago."""
    large = b"x" * 30_000_000

    async def main() -> None:
        engine_reply = scripts.raw(scripts.head(200, ("Content-Length", str(len(large)))), large)
        async with FakeEngine(engine_reply) as engine, Node(engine, limits=Limits(connections=1)) as node:
            slow = await RawClient.open(node.port)
            await slow.send(TAGS)
            await slow.head()
            slow.pause()
            new = await RawClient.open(node.port)
            await eventually(lambda: node.client_port.connections == 2)
            slow.resume()
            assert len(await slow.reader.readexactly(len(large))) == len(large)
            for client in (slow, new):
                client.leave()

    run_async(main())


def test_the_idle_connections_of_one_peer_cost_only_that_peer_their_place() -> None:
    """Each peer has 32 places of its own: one that opens hundreds does not put out another."""
    anna, ben, carla = identity("anna"), identity("ben"), identity("carla")
    limits = Limits(peer_connections=4)

    async def main() -> None:
        async with FakeEngine(DONE) as engine, Node(engine, limits=limits) as node:
            port = await node.open_peer_port(ben, carla)
            of_carla = tls.client_context(carla, anna.certificate)
            of_ben = tls.client_context(ben, anna.certificate)
            quiet = await RawClient.open(port, ssl=of_carla)
            await eventually(lambda: node.peer_port.connections == 1)
            greedy = []
            for number in range(12):
                greedy.append(await RawClient.open(port, ssl=of_ben))
                await eventually(lambda number=number: node.peer_port.connections == 1 + min(4, number + 1))  # type: ignore[misc]
            for client in greedy[:8]:
                assert await client.end() == b""
            listing = request("GET /pairproxy/catalogue HTTP/1.1", None)
            assert [(await one.ask(listing)).status for one in (quiet, *greedy[8:])] == [200] * 5
            for client in (quiet, *greedy):
                client.leave()

    run_async(main())


def test_a_peer_has_connections_for_the_slots_that_it_may_use() -> None:
    """Where a node has many slots, one peer may fill them all and still hear of its state."""
    ben = identity("ben")
    limits = Limits(peer_connections=4, unauthenticated_connections=64)

    async def main() -> None:
        async with FakeEngine(DONE) as engine, Node(engine, slots=8, limits=limits) as node:
            port = await node.open_peer_port(ben)
            context = tls.client_context(ben, node.identity.certificate)
            opened = [await RawClient.open(port, ssl=context) for _ in range(12)]
            await eventually(lambda: node.peer_port.connections == 10)
            for client in opened[:2]:
                assert await client.end() == b""
            for client in opened:
                client.leave()

    run_async(main())


@pytest.mark.parametrize("loop", [None, pytest.param("uvloop", id="uvloop")])
def test_accepting_that_fails_is_tried_again(loop: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """F44: without a descriptor accept() fails; the port neither spins nor ends, and goes on later."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(server, "ACCEPT_AGAIN_S", 0.01)

    async def main() -> None:
        (sock,) = bind("127.0.0.1", 0, "")
        port = PagePort(hello, Limits())
        await port.start(sock)
        client = await RawClient.open(port_of(sock))
        assert (await client.ask(TAGS)).status == 200
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        second = await RawClient.open(port_of(sock))
        assert (await second.ask(TAGS)).status == 200
        with socket.socket() as waiting:
            waiting.setblocking(False)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                await asyncio.get_running_loop().sock_connect(waiting, ("127.0.0.1", port_of(sock)))
                await asyncio.sleep(0.1)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await asyncio.get_running_loop().sock_sendall(waiting, TAGS)
            assert (await asyncio.get_running_loop().sock_recv(waiting, 12)) == b"HTTP/1.1 200"
        client.leave()
        second.leave()
        await port.stop()

    run_async(main(), loop_factory=pytest.importorskip("uvloop").new_event_loop if loop else None)


def test_a_crowd_is_refused_where_descriptors_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """F44: a port that has to leave more descriptors than there are answers nobody else."""
    monkeypatch.setattr(Descriptors, "free", lambda self: 40)

    async def main() -> None:
        refusals: list[bool] = []

        async def handler(incoming: HttpRequest) -> StreamResponse:
            for port in (for_locals, for_peers):
                try:
                    port.refuse_a_crowd(incoming)
                    refusals.append(False)
                except QueueFull:
                    refusals.append(True)
            return Response()

        for_locals, for_peers = PagePort(handler, Limits()), PagePort(handler, Limits(), kept=64)
        (sock,) = bind("127.0.0.1", 0, "")
        await for_locals.start(sock)
        async with await RawClient.open(port_of(sock)) as client:
            await client.ask(TAGS)
        await for_locals.stop()
        assert refusals == [False, True]

    run_async(main())

"""Clients that leave, wait, stall or end their side: the engine works for nobody who is gone."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pairproxy.core.models import Outcome
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.node import Node, Settling
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

pytestmark = pytest.mark.timed

SILENT = scripts.raw(then="hang")
TWO_CHUNKS = scripts.raw(
    scripts.chunked_head(), scripts.chunk(b'{"n":1}\n'), scripts.chunk(b'{"n":2}\n'), then="hang"
)
DONE = scripts.ollama_chat([{"done": True}])
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
with contextlib.suppress(ImportError):  # there is none for Windows
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop  # what `pairproxy up` runs on; it tells the end of a side twice
Leave = Callable[[RawClient], None]
Run = Callable[[Coroutine[Any, Any, None]], None]
LEAVINGS: dict[str, Leave] = {"with FIN": RawClient.leave, "with RST": RawClient.reset}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """run_async() on each kind of loop; they tell the end of a connection in different ways."""
    return lambda coro: run_async(coro, loop_factory=LOOPS[request.param])


@pytest.mark.parametrize("leave", LEAVINGS.values(), ids=LEAVINGS.keys())
@pytest.mark.parametrize("path", ["/api/chat", "/api/pull"])
def test_a_client_that_leaves_before_the_first_byte_frees_the_engine(
    leave: Leave, path: str, run: Run
) -> None:
    """The engine sees its client leave within a second, though it has answered nothing yet."""

    async def main() -> None:
        async with FakeEngine(SILENT) as engine, Node(engine) as node:
            client = await RawClient.open(node.port)
            await client.send(request(f"POST {path} HTTP/1.1"))
            await eventually(lambda: len(engine.requests) == 1)
            left_at = asyncio.get_running_loop().time()
            leave(client)
            assert await engine.connections[0].peer_left() - left_at < 1.0
            if path == "/api/chat":
                (record,) = await node.recorded()
                assert record.outcome is Outcome.CANCELLED

    run(main())


SAID_ALL = {
    "/api/chat": [b'{"message":{"content":"a"},"done":false}\n', b'{"done":true,"eval_count":1}\n'],
    "/v1/chat/completions": [
        b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
        b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n',
        b"data: [DONE]\n\n",
    ],
}


@pytest.mark.parametrize("leave", LEAVINGS.values(), ids=LEAVINGS.keys())
@pytest.mark.parametrize("path", SAID_ALL)
def test_a_client_that_leaves_after_the_last_record_has_its_answer(path: str, leave: Leave, run: Run) -> None:
    """OpenAI's client leaves at [DONE], before the message ends: done, counted, and the slot free at once."""

    async def main() -> None:
        kind = "application/x-ndjson" if path == "/api/chat" else "text/event-stream"
        pieces = [scripts.chunk(record) for record in SAID_ALL[path]]
        settling = Settling()
        async with (
            FakeEngine(scripts.raw(scripts.chunked_head(kind), *pieces, then="hang")) as engine,
            Node(engine, settle=settling) as node,
        ):
            client = await RawClient.open(node.port)
            await client.send(
                request(f"POST {path} HTTP/1.1", b'{"model":"m:1","messages":[],"stream":true}')
            )
            reply = await client.head()
            assert [await client.chunk(reply) for _ in pieces] == SAID_ALL[path]
            leave(client)
            await engine.connections[0].peer_left()
            (record,) = await node.recorded()
            assert (record.outcome, record.usage.output_tokens) == (Outcome.DONE, 1)
            assert not settling.calls

    run(main())


@pytest.mark.parametrize("leave", LEAVINGS.values(), ids=LEAVINGS.keys())
@pytest.mark.parametrize("path", ["/api/chat", "/api/pull"])
def test_a_client_that_leaves_in_the_middle_frees_the_engine(leave: Leave, path: str, run: Run) -> None:
    """After two chunks and then silence the leaving is noticed within a second."""

    async def main() -> None:
        async with FakeEngine(TWO_CHUNKS) as engine, Node(engine) as node:
            client = await RawClient.open(node.port)
            await client.send(request(f"POST {path} HTTP/1.1"))
            reply = await client.head()
            assert [await client.chunk(reply), await client.chunk(reply)] == [b'{"n":1}\n', b'{"n":2}\n']
            left_at = asyncio.get_running_loop().time()
            leave(client)
            assert await engine.connections[0].peer_left() - left_at < 1.0
            if path == "/api/chat":
                (record,) = await node.recorded()
                assert record.outcome is Outcome.CANCELLED

    run(main())


def test_ending_a_side_in_the_middle_is_leaving(run: Run) -> None:
    """Once a reply began, nothing is put between its chunks to find out more."""

    async def main() -> None:
        async with FakeEngine(TWO_CHUNKS) as engine, Node(engine) as node:
            async with await RawClient.open(node.port) as client:
                await client.send(request())
                reply = await client.head()
                assert [await client.chunk(reply), await client.chunk(reply)] == [b'{"n":1}\n', b'{"n":2}\n']
                client.half_close()
                assert await client.end() == b""
            await engine.connections[0].peer_left()

    run(main())


def test_a_client_that_sends_and_leaves_at_once_frees_the_engine(run: Run) -> None:
    """A request whose sender is gone already is not computed to its end."""

    async def main() -> None:
        async with FakeEngine(SILENT) as engine, Node(engine) as node:
            client = await RawClient.open(node.port)
            left_at = asyncio.get_running_loop().time()
            client.writer.write(request())
            client.leave()
            await eventually(lambda: len(engine.requests) == 1)
            assert await engine.connections[0].peer_left() - left_at < 1.0

    run(main())


def test_a_client_that_leaves_the_queue_is_forgotten(run: Run) -> None:
    """Its request never reaches an engine, and the next in the queue is not kept waiting by it."""

    async def main() -> None:
        go_on = asyncio.Event()

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await go_on.wait()
            await connection.send(scripts.json_bytes({"done": True}))

        async with FakeEngine(script) as engine, Node(engine) as node:
            first, second, third = [await RawClient.open(node.port) for _ in range(3)]
            for number, client in enumerate((first, second, third)):
                await client.send(request(body=b'{"model":"m:1","stream":false,"n":%d}' % number))
                await eventually(lambda: len(engine.requests) + node.scheduler.waiting == number + 1)  # noqa: B023
            second.leave()
            await eventually(lambda: node.scheduler.waiting == 1)
            go_on.set()
            assert (await first.reply()).status == (await third.reply()).status == 200
            assert [b'"n":0' in one.body or b'"n":2' in one.body for one in engine.requests] == [True, True]
            outcomes = [record.outcome for record in await node.recorded(3)]
            assert outcomes == [Outcome.CANCELLED, Outcome.DONE, Outcome.DONE]
            first.leave()
            third.leave()

    run(main())


@pytest.mark.parametrize("chunks_first", [0, 2])
def test_the_slot_stays_charged_until_the_engine_settled(chunks_first: int, run: Run) -> None:
    """After a client left, the next request is sent only once the engine is known to be free."""

    async def main() -> None:
        settling = Settling()
        script = TWO_CHUNKS if chunks_first else SILENT
        async with FakeEngine(script) as engine, Node(engine, settle=settling) as node:
            first = await RawClient.open(node.port)
            await first.send(request())
            await eventually(lambda: len(engine.requests) == 1)
            if chunks_first:
                await first.chunk(await first.head())
            first.leave()
            await engine.connections[0].peer_left()
            await eventually(lambda: settling.calls == [0])
            engine.script = DONE
            async with await RawClient.open(node.port) as second:
                await second.send(request())
                await eventually(lambda: node.scheduler.waiting == 1)
                assert len(engine.requests) == 1
                settling.release()
                assert (await second.reply()).status == 200

    run(main())


@pytest.mark.parametrize("delay_s", [0.0, 0.7])
def test_a_client_that_ends_its_side_gets_the_full_answer(delay_s: float, run: Run) -> None:
    """Half-closing after the request is no leaving, however long the engine thinks."""

    async def main() -> None:
        script = scripts.ollama_chat([{"n": 1}, {"done": True}], gap_s=0.02, delay_s=delay_s)
        async with FakeEngine(script) as engine, Node(engine) as node:
            async with await RawClient.open(node.port) as client:
                client.writer.write(request())
                client.half_close()
                reply = await client.reply()
                interim = 0
                while reply.status == 100:  # what every client of HTTP/1.1 skips
                    interim += 1
                    reply = await client.reply()
                assert interim == (1 if delay_s else 0)
                assert reply.body == b'{"n": 1}\n{"done": true}\n'
                assert reply.is_whole
                assert await client.end() == b""
            (record,) = await node.recorded()
            assert record.outcome is Outcome.DONE

    run(main())


def test_a_client_of_1_0_that_ends_its_side_gets_nothing_but_its_answer(run: Run) -> None:
    """HTTP/1.0 has no interim replies, so nobody asks whether the client is still there."""

    async def main() -> None:
        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await asyncio.sleep(0.7)
            await connection.send(scripts.json_bytes({"done": True}))
            connection.close()

        async with (
            FakeEngine(script) as engine,
            Node(engine) as node,
            await RawClient.open(node.port) as client,
        ):
            client.writer.write(request("POST /api/generate HTTP/1.0"))
            client.half_close()
            assert (await client.reply()).json() == {"done": True}

    run(main())


def test_half_a_request_is_no_request(run: Run) -> None:
    """A client that ends its side in the middle of a body is gone; the engine hears nothing of it."""

    async def main() -> None:
        async with FakeEngine(DONE) as engine, Node(engine) as node:
            async with await RawClient.open(node.port) as client:
                client.writer.write(request()[:-5])
                client.half_close()
                assert await client.end() == b""
            assert engine.requests == []

    run(main())

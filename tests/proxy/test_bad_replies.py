"""J13-J30: replies that are odd and not wrong, too large or endless (what is wrong: test_faults_before)."""

import tracemalloc

import pytest

from pairproxy.config import Limits
from pairproxy.core.models import Outcome
from tests.support import engine_scripts as scripts
from tests.support.bad_replies import (
    CHAT,
    HTML,
    JSON,
    KINDS,
    LASTS,
    PATHS,
    SIDES,
    WHOLE,
    WORDS,
    alone,
    ask,
    begun,
    body_of,
    failing,
    length,
    line,
)
from tests.support.fake_engine import EngineConnection, ParsedRequest
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

pytestmark = pytest.mark.timed

MIB = 2**20


@pytest.mark.parametrize("count", [1, 1000])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("side", SIDES)
def test_only_the_final_answer_is_passed_on(side: str, path: str, count: int) -> None:
    """J13: any number of 100 and a 103 before it are not."""

    async def main() -> None:
        interim = line("100 Continue", b"\r\n") * count + line("103 Early Hints", b"Link: <x>\r\n\r\n")
        framed = scripts.chunked_head(KINDS[path]) + scripts.chunk(WHOLE[path]) + scripts.LAST_CHUNK
        async with failing(side, scripts.raw(interim + framed)) as (node, _, other):
            reply = await ask(node, path)
            assert (reply.status, reply.body) == (200, WHOLE[path])
            assert other.requests == []

    run_async(main())


@pytest.mark.parametrize("side", SIDES)
def test_lenient_lines_are_rebuilt(side: str) -> None:
    """J18: line ends without CR and folded lines are accepted, and not passed on."""

    async def main() -> None:
        body = b'{"done":true}'
        text = b"HTTP/1.1 200 OK\nContent-Type: application/json\nCache-Control: no-store,\n  private\n"
        script = scripts.raw(text + b"Content-Length: 13\n\n" + body)
        async with failing(side, script) as (node, _, other), await RawClient.open(node.port) as client:
            await client.send(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT, is_streaming=False)))
            raw = await client.reader.readuntil(b"\r\n\r\n")
            assert raw.count(b"\n") == raw.count(b"\r\n")
            assert b"\n " not in raw
            assert await client.reader.readexactly(13) == body
            assert other.requests == []

    run_async(main())


LOCAL = {
    "J16": length("0", ("Location", "http://169.254.169.254/"), status=302),
    "J21": length("4", ("Content-Encoding", "gzip"), body=b"\x1f\x8b\x08\xff"),
    "J25": HTML,
}


@pytest.mark.parametrize("row", LOCAL)
def test_an_engine_of_this_machine_may_say_what_it_likes(row: str) -> None:
    """6 (g): a redirect is relayed and not followed, a coding is not read, a page is a page."""

    async def main() -> None:
        async with failing("engine", scripts.raw(LOCAL[row])) as (node, engine, other):
            reply = await ask(node)
            head, _, body = LOCAL[row].partition(b"\r\n\r\n")
            assert reply.status_line == head.split(b"\r\n")[0]
            assert reply.body == body
            assert (len(engine.requests), other.requests) == (1, [])

    run_async(main())


@pytest.mark.parametrize("side", SIDES)
def test_a_body_that_is_too_large_for_a_place(side: str) -> None:
    """J23: a 413 while 20 MB are on their way; from the engine here it is the answer, from a peer a no."""

    async def main() -> None:
        async def refuses(_: ParsedRequest, connection: EngineConnection) -> None:
            connection.pause()
            await connection.send(length("2", body=b"{}", status=413))
            await connection.peer_left()

        async def takes(incoming: ParsedRequest, connection: EngineConnection) -> None:
            if side == "peer":
                await connection.read_body(incoming)
            await scripts.json_reply({"done": True})(incoming, connection)

        async with failing(side, refuses, takes) as (node, refusing, other):
            refusing.is_at_head = True
            other.is_at_head = side == "peer"
            body = body_of(CHAT, is_streaming=False)[:-1] + b',"x":"%s"}' % (b"x" * 20 * MIB)
            async with await RawClient.open(node.port) as client:
                reply = await client.ask(request(f"POST {CHAT} HTTP/1.1", body))
            assert reply.status == (413 if side == "engine" else 200)
            assert len(other.requests) == (0 if side == "engine" else 1)
            assert len(node.scheduler._knows.avoidance) == 0

    run_async(main())


async def endless_line(connection: EngineConnection, size: int) -> None:
    """One line of so many bytes, then its end and the last record."""
    block = scripts.chunk(b"x" * MIB)
    for _ in range(size // MIB):
        await connection.send(block)
    await connection.send(scripts.chunk(b"\n" + LASTS[CHAT]) + scripts.LAST_CHUNK)


@pytest.mark.parametrize("side", SIDES)
def test_a_line_of_a_hundred_megabytes_is_streamed_in_little_memory(side: str) -> None:
    """J27: the meter keeps the end of it, the proxy what the client has not taken."""

    async def main() -> None:
        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(scripts.chunked_head())
            await endless_line(connection, 100 * MIB)

        async with failing(side, script) as (node, _, _other), await RawClient.open(node.port) as client:
            await client.send(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT)))
            await client.head()
            tracemalloc.start()
            size, tail = 0, b""
            while not tail.endswith(scripts.LAST_CHUNK):
                data = await client.reader.read(65536)
                assert data
                size, tail = size + len(data), (tail + data)[-16:]
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert size > 100 * MIB
            assert peak < 16 * MIB  # of both ends and the fake engine's blocks
            (record,) = await node.recorded()
            assert record.outcome is Outcome.DONE

    run_async(main(), timeout=60)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("side", SIDES)
def test_a_reply_without_end_is_broken_off(side: str, path: str) -> None:
    """J28: after limits.reply_bytes, and the engine is left; a client that stays does not change that."""

    async def main() -> None:
        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(scripts.chunked_head(KINDS[path]))
            while True:
                await connection.send(scripts.chunk(WORDS[path]))

        async with failing(side, script, limits=Limits(reply_bytes=MIB // 8)) as (node, engine, _):
            reply = await ask(node, path)
            assert not reply.is_whole
            assert MIB // 16 < len(reply.raw) <= MIB // 8 + 200
            await engine.connections[0].peer_left()
            (record,) = await node.recorded()
            assert record.outcome is Outcome.TRUNCATED

    run_async(main())


@pytest.mark.parametrize("side", SIDES)
def test_an_error_of_the_model_blames_no_node(side: str) -> None:
    """J29: the one line passes as it is; nobody else is asked, and the next request goes there as well."""

    async def main() -> None:
        async with failing(side, scripts.in_chunks([b'{"error":"x"}\n'], content_type=KINDS[CHAT])) as (
            node,
            failed,
            other,
        ):
            for _ in range(2):
                reply = await ask(node)
                assert (reply.status, reply.is_whole, reply.body) == (200, True, b'{"error":"x"}\n')
            assert (len(failed.requests), len(other.requests)) == (2, 0)
            assert [record.outcome for record in await node.recorded(2)] == [Outcome.ERROR] * 2
            assert len(node.scheduler._knows.avoidance) == 0

    run_async(main())


ODD_TEXT = b'{"message":{"content":"\xff\xfe \\ud800 \\u0000 \x1b[2J"},"done":false}\n'


@pytest.mark.parametrize("side", SIDES)
def test_text_is_never_decoded_to_be_passed_on(side: str) -> None:
    """J30: bytes that are no UTF-8, lone surrogates, NUL and ESC come as they were sent."""

    async def main() -> None:
        body = ODD_TEXT + LASTS[CHAT]
        async with failing(side, scripts.in_chunks([body], content_type=KINDS[CHAT])) as (node, _, _other):
            reply = await ask(node)
            assert (reply.is_whole, reply.body) == (True, body)
            (record,) = await node.recorded()
            assert record.outcome is Outcome.DONE

    run_async(main())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("side", SIDES)
def test_broken_chunks_in_the_middle_end_the_stream(side: str, path: str) -> None:
    """J06 later: the client gets what came whole, and an end that is none; nobody else is asked."""

    async def main() -> None:
        async with failing(side, scripts.raw(begun(path) + b"zz\r\n", then="hang")) as (node, engine, other):
            reply = await ask(node, path)
            assert not reply.is_whole
            assert reply.body.startswith(WORDS[path] * 2)
            await engine.connections[0].peer_left()
            assert other.requests == []
            (record,) = await node.recorded()
            assert record.outcome is Outcome.TRUNCATED

    run_async(main())


def test_what_a_peer_says_beside_its_reply_is_dropped() -> None:
    """J26: an engine of this machine may set cookies, a peer may not."""

    async def main() -> None:
        extra = (
            ("Set-Cookie", "a=b"),
            ("Alt-Svc", "h3"),
            ("Access-Control-Allow-Origin", "*"),
            ("Refresh", "0"),
        )
        answer = scripts.head(200, JSON, *extra, ("Content-Length", "13")) + b'{"done":true}'
        for side in SIDES:
            async with alone(side, scripts.raw(answer)) as (node, _):
                reply = await ask(node, is_streaming=False)
                passed = [name for name, _ in extra if reply.header(name) is not None]
                assert passed == ([name for name, _ in extra] if side == "engine" else [])

    run_async(main())

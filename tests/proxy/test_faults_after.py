"""F6, F9, F10, F16: a reply that loses its node after the first body byte ends honestly."""

import asyncio
from collections.abc import Callable

import pytest

from pairproxy.config import Limits
from pairproxy.core.models import Outcome
from pairproxy.core.rules import Rules
from tests.support import engine_scripts as scripts
from tests.support.bad_replies import (
    BEN,
    CHAT,
    KINDS,
    LASTS,
    PATHS,
    SIDES,
    WORDS,
    alone,
    ask,
    begun,
    body_of,
    failing,
)
from tests.support.fake_engine import eventually
from tests.support.node import Node
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

pytestmark = pytest.mark.timed

QUICK = Limits(quiet_s=0.2, gone_s=0.1, node_stale_s=0.1)


def assert_broken_off(reply: RawReply, path: str, words: int = 2) -> None:
    """The text so far; on /api one line that says what happened; and no end that anybody takes for one."""
    text = WORDS[path] * words
    assert not reply.is_whole
    assert reply.body.startswith(text)
    rest = reply.body[len(text) :]
    if path == CHAT:
        assert rest.startswith(b'{"error":"')
        assert rest.endswith(b'"}\n')
        assert rest.count(b"\n") == 1
    else:
        assert rest == b""
    assert not bytes(reply.raw).endswith(scripts.LAST_CHUNK)


async def assert_truncated(node: Node) -> None:
    """The record says so, and the slot is free again."""
    (record,) = await node.recorded()
    assert record.outcome is Outcome.TRUNCATED
    assert len(record.attempts) == 1
    await eventually(lambda: not node.scheduler.running)


@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("side", SIDES)
def test_a_node_that_dies_in_the_middle_ends_the_stream(side: str, path: str, then: str) -> None:
    """F6, J05: nobody else is asked, for the client has read a part."""

    async def main() -> None:
        async with failing(side, scripts.raw(begun(path), then=then)) as (node, _, other):
            assert_broken_off(await ask(node, path), path)
            assert other.requests == []
            await assert_truncated(node)

    run_async(main())


CUTS: dict[str, Callable[[str], bytes]] = {
    "F16 no last record": lambda path: begun(path) + scripts.LAST_CHUNK,
    "F16 no last record, in trailers": lambda path: begun(path) + b"0\r\nX: y\r\n\r\n",
    "F16 no last record, one read": lambda path: begun(path, 2) + b"000\r\n\r\n",
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("row", CUTS)
def test_a_peers_message_that_is_whole_without_its_last_record_is_none(row: str, path: str) -> None:
    """F16: HTTP thinks that all was said; its terminator is not passed on."""

    async def main() -> None:
        async with failing("peer", scripts.raw(CUTS[row](path))) as (node, _, other):
            assert_broken_off(await ask(node, path), path)
            assert other.requests == []
            await assert_truncated(node)

    run_async(main())


def test_what_looks_like_the_end_within_a_peers_text_is_text() -> None:
    """F16: sizes of zero in the last chunk's content are passed on, however many lines of them there are."""
    path, odd = "/v1/chat/completions", b"\r\n0" * 1000

    async def main() -> None:
        script = scripts.raw(begun(path, 1) + scripts.chunk(odd) + scripts.LAST_CHUNK)
        async with failing("peer", script) as (node, _, _other):
            reply = await ask(node, path)
            assert (reply.body, reply.is_whole) == (WORDS[path] + odd, False)
            await assert_truncated(node)

    run_async(main())


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_terminator_in_pieces_is_not_passed_on_whole(cut: int) -> None:
    """F16: wherever it is split; a line can be added only where none of it went out."""

    async def main() -> None:
        first, rest = scripts.LAST_CHUNK[:cut], scripts.LAST_CHUNK[cut:]
        script = scripts.raw(begun(CHAT), first, rest, gap_s=0.02)
        async with failing("peer", script) as (node, _, _other):
            async with await RawClient.open(node.port) as client:
                await client.send(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT)))
                await client.head()
                got = await client.end()
            assert got.startswith(scripts.chunk(WORDS[CHAT]) * 2)
            assert scripts.LAST_CHUNK not in got
            await assert_truncated(node)

    run_async(main())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "end",
    [scripts.LAST_CHUNK, b"000\r\n\r\n", b"0;x=y\r\nA: b\r\nC: d\r\n\r\n"],
    ids=["usual", "zeros", "trailers"],
)
def test_a_whole_reply_of_a_peer_passes_byte_for_byte(end: bytes, path: str) -> None:
    """What holds back its end changes nothing of it, in one read or many."""

    async def main() -> None:
        framed = scripts.chunk(WORDS[path]) + scripts.chunk(LASTS[path]) + end
        for size in (len(framed), 7, 1):
            pieces = [framed[start : start + size] for start in range(0, len(framed), size)]
            script = scripts.raw(scripts.chunked_head(KINDS[path]), *pieces, gap_s=0.0005)
            async with failing("peer", script) as (node, _, _other):
                async with await RawClient.open(node.port) as client:
                    await client.send(request(f"POST {path} HTTP/1.1", body_of(path), "Connection: close"))
                    await client.head()
                    assert await client.end() == framed
                (record,) = await node.recorded()
                assert record.outcome is Outcome.DONE

    run_async(main())


@pytest.mark.parametrize("is_whole", [True, False], ids=["J07", "F16 J08"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("side", SIDES)
def test_what_closing_ends_is_an_answer_only_with_its_last_record(
    side: str, path: str, is_whole: bool
) -> None:
    """J07: whole; J08: cut in a line, which HTTP cannot see: the client gets what came, and a reset."""

    async def main() -> None:
        head = scripts.head(200, ("Content-Type", KINDS[path]))
        last = LASTS[path] if is_whole else LASTS[path][:7]
        script = scripts.raw(head, WORDS[path], last, gap_s=0.01, then="close")
        async with failing(side, script) as (node, _, other), await RawClient.open(node.port) as client:
            await client.send(request(f"POST {path} HTTP/1.1", body_of(path)))
            await client.head()
            text = WORDS[path] + last
            assert await client.reader.readexactly(len(text)) == text
            if is_whole:
                assert await client.end() == b""
            else:
                with pytest.raises(ConnectionResetError):
                    await client.end()
            (record,) = await node.recorded()
            assert record.outcome is (Outcome.DONE if is_whole else Outcome.TRUNCATED)
            assert other.requests == []

    run_async(main())


def test_what_closing_ends_between_two_lines_says_so_in_a_line() -> None:
    """F16: on /api a last line fits there."""

    async def main() -> None:
        head = scripts.head(200, ("Content-Type", KINDS[CHAT]))
        script = scripts.raw(head, WORDS[CHAT], then="close")
        async with alone("engine", script) as (node, _), await RawClient.open(node.port) as client:
            await client.send(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT)))
            await client.head()
            assert await client.reader.readline() == WORDS[CHAT]
            assert (await client.reader.readline()).startswith(b'{"error":"')
            with pytest.raises(ConnectionResetError):
                await client.end()

    run_async(main())


@pytest.mark.parametrize("path", PATHS)
def test_an_engine_of_this_machine_passes_as_it_is(path: str) -> None:
    """6 (g): a message that it ended in order is its client's to judge; the record says truncated."""

    async def main() -> None:
        async with alone("engine", scripts.raw(CUTS["F16 no last record"](path))) as (node, _):
            reply = await ask(node, path)
            assert (reply.is_whole, reply.body) == (True, WORDS[path] * 2)
            await assert_truncated(node)

    run_async(main())


@pytest.mark.parametrize("path", PATHS)
def test_a_node_whose_heartbeat_stops_ends_the_stream(path: str) -> None:
    """F9, F10: as soon as it is known, where the stream is silent as well."""

    async def main() -> None:
        script = scripts.raw(begun(path), then="hang")
        async with failing("peer", script, limits=QUICK) as (node, peer, other):
            asking = asyncio.create_task(ask(node, path))
            await eventually(lambda: any(one.first_byte_at is not None for one in node.scheduler.running))
            node.lose(BEN)
            assert_broken_off(await asking, path)
            await peer.connections[0].peer_left()
            assert other.requests == []
            await assert_truncated(node)

    run_async(main())


@pytest.mark.parametrize("path", PATHS)
def test_a_silent_stream_of_a_living_peer_ends(path: str) -> None:
    """F9, J22: after limits.quiet_s without a byte."""

    async def main() -> None:
        script = scripts.raw(begun(path), then="hang")
        rules = Rules(quiet_s=QUICK.quiet_s)
        async with failing("peer", script, limits=QUICK, rules=rules) as (node, peer, _):
            assert_broken_off(await ask(node, path), path)
            await peer.connections[0].peer_left()
            await assert_truncated(node)

    run_async(main())

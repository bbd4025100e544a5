"""Taking in bodies, through a port whose handler does nothing else."""

import asyncio

import msgspec
import pytest

from pairproxy.config import Limits
from pairproxy.core.errors import PairproxyError
from pairproxy.proxy.body import (
    BodyStream,
    Once,
    read_body,
    say_continue,
)
from pairproxy.proxy.content import BrokenFraming
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.request import HttpRequest
from pairproxy.proxy.server import PagePort
from pairproxy.responses import Response, StreamResponse
from tests.support.engine_scripts import LAST_CHUNK, chunk
from tests.support.fake_engine import eventually
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

pytestmark = pytest.mark.timed

LIMITS = Limits(body_bytes=2**20, body_deadline_s=0.4, body_floor_bytes_per_s=2**30)
CHUNKED = "Transfer-Encoding: chunked"


def told(value: object, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(value), status=status, content_type="application/json")


async def answer(incoming: HttpRequest) -> StreamResponse:
    """The size of the body read whole (/read) or in parts (/stream), or the error's status."""
    try:
        say_continue(incoming)
        if incoming.path == "/read":
            return told(len(await read_body(incoming, LIMITS)))
        parts = [len(part) async for part in BodyStream(incoming, LIMITS)]
        return told(sum(parts))
    except PairproxyError as error:
        return told(type(error).__name__, status=error.status)


def ask(*pieces: bytes | float) -> RawReply:
    """What the port answers to these bytes; a number is a pause in seconds."""

    async def main() -> RawReply:
        (sock,) = bind("127.0.0.1", 0, "")
        port = PagePort(answer, Limits())
        await port.start(sock)
        async with await RawClient.open(port_of(sock)) as client:
            for piece in pieces:
                if isinstance(piece, bytes):
                    await client.send(piece)
                else:
                    await asyncio.sleep(piece)
            reply = await client.reply()
        await port.stop()
        return reply

    return run_async(main())


def post(path: str, body: bytes | None, *headers: str) -> bytes:
    """A request with this body."""
    return request(f"POST {path} HTTP/1.1", body, *headers)


@pytest.mark.parametrize("path", ["/read", "/stream"])
@pytest.mark.parametrize("size", [0, 1, 2**20])
def test_a_body_within_the_limits_is_taken_in(path: str, size: int) -> None:
    """Counted or chunked, in one piece or in many."""
    body = b"x" * size
    chunks = b"".join(chunk(body[at : at + 9999]) for at in range(0, size, 9999)) + LAST_CHUNK
    assert ask(post(path, body)).json() == size
    assert ask(post(path, chunks, CHUNKED)).json() == size


def test_a_body_that_is_declared_too_large_is_not_waited_for() -> None:
    """The length alone decides; not a byte has to come."""
    assert ask(post("/read", None, f"Content-Length: {2**20 + 1}")).json() == "BodyTooLarge"
    assert ask(post("/read", None, f"Content-Length: {2**63}")).json() == "BodyTooLarge"


def test_a_body_that_becomes_too_large_is_stopped() -> None:
    """A chunked body tells its size only by coming; the limit is kept all the same."""
    assert ask(post("/read", chunk(b"x" * (2**20 + 1)) + LAST_CHUNK, CHUNKED)).json() == "BodyTooLarge"


def test_a_body_that_is_passed_on_has_no_size_limit() -> None:
    """Uploads of models are larger than any prompt."""
    assert ask(post("/stream", b"x" * (2**20 + 1))).json() == 2**20 + 1


def test_a_body_has_one_deadline_for_all_of_it() -> None:
    """Bytes that drip in do not move the deadline."""
    dripping: list[bytes | float] = [post("/read", b"", "Content-Length: 99")]
    for _ in range(5):
        dripping += [b"x", 0.15]
    assert ask(*dripping).json() == "BodyTooSlow"


def test_chunks_that_drip_in_do_not_move_the_deadline_much() -> None:
    """Of a body without a length what has come counts: a byte now and then buys no time."""
    dripping: list[bytes | float] = [post("/read", b"", CHUNKED)]
    for _ in range(5):
        dripping += [chunk(b"x"), 0.15]
    assert ask(*dripping).json() == "BodyTooSlow"


@pytest.mark.parametrize(
    ("size", "expected"), [(0, 30.0), (29 * 2**18, 30.0), (31 * 2**18, 31.0), (2**28, 1024.0)]
)
def test_a_large_body_may_take_its_time(size: int, expected: float) -> None:
    """30 s, or what the size takes at 256 KiB/s if that is longer."""
    assert Limits().body_time_s(size) == expected


def test_a_body_that_is_passed_on_may_be_slow_but_not_stop() -> None:
    """Its deadline begins anew with each part."""
    dripping: list[bytes | float] = [post("/stream", b"", "Content-Length: 6")]
    for _ in range(6):
        dripping += [b"x", 0.15]
    assert ask(*dripping).json() == 6
    assert ask(post("/stream", b"x", "Content-Length: 6")).json() == "BodyTooSlow"


@pytest.mark.parametrize("path", ["/read", "/stream"])
@pytest.mark.parametrize("rest", [b"zz\r\n", b"-1\r\n", b"5\r\nabcdeXX", b"ffffffffffffffffff\r\n"])
def test_a_body_with_broken_framing_is_a_bad_request(path: str, rest: bytes) -> None:
    """Found in the middle of the body it is an error of the request, not of ours."""
    assert ask(post(path, chunk(b"good"), CHUNKED), 0.02, rest).status == 400


@pytest.mark.parametrize("turns", range(5))
def test_broken_framing_is_found_whenever_it_comes(turns: int) -> None:
    """Also when it comes after the head and before the first step of the handler."""

    async def main() -> None:
        async def reads(incoming: HttpRequest) -> StreamResponse:
            try:
                async with asyncio.timeout(1.0):
                    async for _ in incoming.content.iter_any():
                        pass
            except BrokenFraming:
                return Response(status=400)
            raise AssertionError

        (sock,) = bind("127.0.0.1", 0, "")
        port = PagePort(reads, Limits())
        await port.start(sock)
        async with await RawClient.open(port_of(sock)) as client:
            await eventually(lambda: port.connections == 1)
            (connection,) = port._connections.open
            await asyncio.sleep(0)  # its task has begun to wait
            connection.data_received(request("POST / HTTP/1.1", b"", "Transfer-Encoding: chunked"))
            for _ in range(turns):
                await asyncio.sleep(0)
            connection.data_received(b"zz\r\n")
            assert (await client.reply()).status == 400
        await port.stop()

    run_async(main())


def test_an_expectation_is_met_when_it_is_known() -> None:
    """100 Continue is said when the body is about to be read; anything else expected is 417."""
    assert ask(post("/read", b"x", "Expect: 100-Continue")).status == 100
    assert ask(post("/read", b"x", "Expect: tea")).json() == "ExpectationFailed"
    assert ask(request("POST /read HTTP/1.0", b"x", "Expect: tea")).json() == 1


def test_a_whole_body_is_a_stream_of_one_part() -> None:
    """An empty one of none."""

    async def parts(body: bytes) -> list[bytes]:
        return [part async for part in Once(body)]

    assert asyncio.run(parts(b"abc")) == [b"abc"]
    assert asyncio.run(parts(b"")) == []

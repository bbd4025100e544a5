"""What a paired machine that means harm tries at the peer port, beyond the rows of group G."""

import asyncio
import contextlib

import pytest

from pairproxy.config import Limits
from pairproxy.proxy.peer_port import HELD_BODIES
from pairproxy.proxy.show import ASKED_BYTES
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, ParsedRequest, eventually
from tests.support.node import identity
from tests.support.peer_calls import ben_trusting_anna, call, sent
from tests.support.raw_client import request
from tests.support.running import run_async

NAME, ENGINE = "X-Pairproxy-Request: a1", "X-Pairproxy-Engine: engine"


@pytest.mark.parametrize("name", ["X-Pairproxy-Request", "X-Pairproxy-Attempt"])
@pytest.mark.parametrize("digit", ["\u00b2", "\u0663"])
def test_digits_that_are_none_are_no_number_of_an_attempt(name: str, digit: str) -> None:
    """G16: a superscript or an Arabic digit is refused as no node would send it, and is no fault of ours."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            told = {"X-Pairproxy-Request": "a1", "X-Pairproxy-Attempt": "1"}
            told[name] = digit.encode().decode("latin-1")
            lines = [f"{key}: {value}" for key, value in told.items()]
            reply = await anna.ask(request("POST /api/chat HTTP/1.1", b'{"model":"m:1"}', *lines, host="x"))
            assert (reply.status, reply.header("X-Pairproxy-Refused")) == (400, b"BadRequest")
            assert engine.requests == []

    run_async(main())


def test_g15_a_question_about_a_model_is_as_small_as_one() -> None:
    """413 by its declared length: 32 connections of 256 MiB each would be all of a machine's memory."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            head = sent({"model": "m:1"}, path="/api/show").partition(b"\r\n\r\n")[0]
            size = b"Content-Length: %d" % (ASKED_BYTES + 1)
            lines = [size if one.startswith(b"Content-Length") else one for one in head.split(b"\r\n")]
            await anna.send(b"\r\n".join(lines) + b"\r\n\r\n")
            reply = await anna.head()
            assert (reply.status, reply.header("X-Pairproxy-Refused")) == (413, b"BodyTooLarge")
            assert engine.requests == []

    run_async(main())


def test_g15_bodies_of_a_peer_that_never_end_hold_a_few_of_the_largest_size() -> None:
    """Its 32 connections could hold 2 GiB for minutes; now 503 before a byte is read, until one is over."""

    async def main() -> None:
        async with ben_trusting_anna(limits=Limits(peer_body_bytes=1000)) as (ben, engine):
            async with contextlib.AsyncExitStack() as stack:
                slow = [await stack.enter_async_context(await call(ben)) for _ in range(HELD_BODIES)]
                for number, one in enumerate(slow):
                    await one.send(sent({"model": "m:1", "x": "y" * 900}, number=number)[:-100])
                await eventually(lambda: sum(ben.peer_port._held.values()) > (HELD_BODIES - 1) * 1000)
                async with await call(ben) as anna:
                    reply = await anna.ask(sent({"model": "m:1", "x": "y" * 900}, number=90))
                    assert (reply.status, reply.header("X-Pairproxy-Refused")) == (503, b"QueueFull")
                slow[0].reset()
                await eventually(lambda: sum(ben.peer_port._held.values()) < (HELD_BODIES - 1) * 1000)
                async with await call(ben) as anna:
                    assert (await anna.ask(sent({"model": "m:1", "x": "y" * 900}, number=91))).status == 200
            assert len(engine.requests) == 1

    run_async(main())


@pytest.mark.breaks_off
@pytest.mark.parametrize("phase", ["upload", "prefill", "stream"])
def test_f41_who_is_cut_off_is_served_no_further_in_any_phase(phase: str) -> None:
    """While its body comes, its prompt is read or its reply goes out: nothing is held, nothing runs on."""

    async def answer(_: ParsedRequest, connection: EngineConnection) -> None:
        if phase == "stream":
            await connection.send(scripts.chunked_head() + scripts.chunk(b'{"message":{}}\n'))
        await asyncio.Event().wait()

    async def main() -> None:
        async with ben_trusting_anna(answer) as (ben, engine), await call(ben) as anna:
            whole = sent({"model": "m:1", "x": "y" * 1000})
            await anna.send(whole[:-500] if phase == "upload" else whole)
            if phase == "upload":
                await eventually(lambda: sum(ben.peer_port._held.values()) > 0)
            else:
                await eventually(lambda: len(engine.requests) == 1)
            ben.peer_port.cut(identity("anna").certificate)
            with contextlib.suppress(ConnectionError):
                assert b" 500 " not in await anna.end()
            await eventually(lambda: not ben.scheduler.running and not sum(ben.peer_port._held.values()))
            await eventually(lambda: ben.peer_port.connections == 0)
            if phase == "upload":
                assert engine.requests == []
            else:
                await engine.connections[0].peer_left()

    run_async(main())

"""What clients with keys hold of the port and the engines: slots, connections, bodies; who is kept out."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest

from pairproxy.config import Limits
from tests.proxy.test_key_port import CHAT, DONE, ask, bearer
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, ParsedRequest, eventually
from tests.support.keyed import keyed, trusting
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async


class Held:
    """An engine whose replies begin when they are let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, got: ParsedRequest, connection: EngineConnection) -> None:
        await self.go.wait()
        await DONE(got, connection)


def test_the_slots_of_a_key_are_all_that_it_holds(tmp_path: Path) -> None:
    """The second request waits for the first, and none of it is at the engine; too long, and it is told."""

    async def main() -> None:
        held = Held()
        async with keyed(held, tmp_path, slots=4, queue_timeout_s=0.2) as one:
            key, _ = one.keys.add("ci", slots=1)
            free, _ = one.keys.add("free")
            first = asyncio.create_task(ask(one, CHAT, key, b'{"model":"m:1"}'))
            await eventually(lambda: len(one.engine.requests) == 1)
            late = await ask(one, CHAT, key, b'{"model":"m:1"}')
            assert (late.status, late.header("Retry-After")) == (503, b"1")
            other = asyncio.create_task(ask(one, CHAT, free, b'{"model":"m:1"}'))
            await eventually(lambda: len(one.engine.requests) == 2)
            held.go.set()
            assert [(await task).status for task in (first, other)] == [200, 200]
            assert (await ask(one, CHAT, key, b'{"model":"m:1"}')).status == 200

    run_async(main())


@pytest.mark.breaks_off("the key was revoked in the middle")
def test_a_revoked_key_is_cut_off_at_once(tmp_path: Path) -> None:
    """What runs for it ends, idle connections too; those of other keys go on."""

    async def main() -> None:
        held = Held()
        async with keyed(held, tmp_path, slots=4) as one:
            gone, _ = one.keys.add("gone")
            kept, _ = one.keys.add("kept")
            tasks = [asyncio.create_task(ask(one, CHAT, key, b'{"model":"m:1"}')) for key in (gone, kept)]
            await eventually(lambda: len(one.engine.requests) == 2)
            revoked = one.keys.revoke("gone")
            one.port.cut([revoked])
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await tasks[0]
            await eventually(lambda: one.engine.open_connections == 1)
            assert (await ask(one, CHAT, gone, b'{"model":"m:1"}')).status == 401
            held.go.set()
            assert (await tasks[1]).status == 200

    run_async(main())


@pytest.mark.parametrize("fields", [(), ("Expect: 100-continue",), ("Transfer-Encoding: chunked",)])
def test_a_large_body_comes_whole(fields: tuple[str, ...], tmp_path: Path) -> None:
    """Of several megabytes, however it is framed; one beyond the limit is refused."""
    body = b'{"model":"m:1","messages":[{"content":"' + b"x" * 6_000_000 + b'"}]}'

    async def main() -> None:
        async with keyed(DONE, tmp_path, limits=Limits(body_bytes=8_000_000)) as one:
            key, _ = one.keys.add("ci")
            async with await one.client() as client:
                framed = scripts.chunk(body) + scripts.LAST_CHUNK if "chunked" in "".join(fields) else body
                await client.send(request(CHAT, framed, bearer(key), *fields))
                reply = await client.reply()
                if reply.status == 100:
                    reply = await client.reply()
                assert (reply.status, reply.is_whole) == (200, True)
            assert one.engine.requests[0].body == body
            large = await ask(one, CHAT, key, b"x", f"Content-Length: {9_000_000}")
            assert large.status == 413

    run_async(main())


def test_a_client_that_leaves_stops_the_engine(tmp_path: Path) -> None:
    """While it waits for the first word, and for a slot of its key."""

    async def main() -> None:
        held = Held()
        async with keyed(held, tmp_path, slots=4) as one:
            key, _ = one.keys.add("ci", slots=1)
            first, second = await one.client(), await one.client()
            for client in (first, second):
                await client.send(request(CHAT, b'{"model":"m:1"}', bearer(key)))
            await eventually(lambda: len(one.engine.requests) == 1)
            for client in (second, first):
                client.writer.transport.abort()
            await eventually(lambda: one.engine.open_connections == 0)
            held.go.set()
            assert (await ask(one, CHAT, key, b'{"model":"m:1"}')).status == 200

    run_async(main())


def test_strangers_keep_nobody_out(tmp_path: Path) -> None:
    """Whether they do not shake hands, or shake hands and say nothing, or ask without a key and stay."""

    async def main() -> None:
        limits = Limits(connections=8, unauthenticated_connections=4)
        async with keyed(DONE, tmp_path, limits=limits) as one:
            key, _ = one.keys.add("ci")
            dumb = [await asyncio.open_connection("127.0.0.1", one.number) for _ in range(12)]
            quiet = [await one.client() for _ in range(12)]
            for client in quiet[:4]:
                with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                    assert (await client.ask(request("GET /api/tags HTTP/1.1", None))).status == 401
            assert (await ask(one, CHAT, key, b'{"model":"m:1"}')).status == 200
            assert one.port.connections <= 8
            for _, writer in dumb:
                writer.transport.abort()
            for client in quiet:
                client.writer.transport.abort()

    run_async(main())


def test_nothing_but_tls_is_spoken(tmp_path: Path) -> None:
    """Plain HTTP gets no byte, whatever it shows; neither does TLS 1.1, and who trusts others refuses us."""

    async def main() -> None:
        async with keyed(DONE, tmp_path) as one:
            key, _ = one.keys.add("ci")
            async with await RawClient.open(one.number) as client:
                with contextlib.suppress(ConnectionError):
                    await client.send(request(CHAT, b"{}", bearer(key)))
                    assert b"HTTP" not in await client.end()
            with pytest.raises(ssl.SSLCertVerificationError):
                await RawClient.open(
                    one.number, ssl=ssl.create_default_context(), server_hostname="localhost"
                )
            with pytest.raises(ssl.SSLCertVerificationError):
                await RawClient.open(one.number, ssl=trusting(tmp_path), server_hostname="bank.example")
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            old.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.warns(DeprecationWarning, match="TLSv1_1"):
                old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await RawClient.open(one.number, ssl=old, server_hostname="localhost")
            assert one.engine.requests == []

    run_async(main())

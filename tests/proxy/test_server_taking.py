"""How a port takes in connections, and what becomes of those that come while it ends."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pairproxy.config import Limits
from pairproxy.proxy import server
from pairproxy.proxy.connection import Connection
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.server import PagePort
from pairproxy.security import tls
from pairproxy.security.identity import Identity
from tests.support.fake_engine import eventually
from tests.support.node import identity, node_before
from tests.support.open_ports import echo, hello
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

LoopFactory = Callable[[], asyncio.AbstractEventLoop] | None
try:
    import uvloop
except ImportError:  # there is none for Windows
    LOOPS: list[LoopFactory] = [None]
else:
    LOOPS = [None, uvloop.new_event_loop]
TAGS = "GET /api/tags HTTP/1.1"


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_who_comes_while_a_port_closes_is_not_lost(loop_factory: LoopFactory) -> None:
    """Whenever taking connections is cancelled: one that came is taken, or waits for who listens next."""

    async def main(turns: int) -> bool:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            taking = asyncio.create_task(server.accepted(listening))
            await asyncio.sleep(0)
            with socket.create_connection(listening.getsockname()):
                for _ in range(turns):
                    await asyncio.sleep(0)
                taking.cancel()
                await asyncio.wait([taking])
                was_taken = not taking.cancelled()
                connection, _ = taking.result() if was_taken else listening.accept()  # else BlockingIOError
                connection.close()
                return was_taken

    assert {run_async(main(turns), loop_factory=loop_factory) for turns in range(12)} == {False, True}


def test_a_port_that_parts_answers_who_is_there_once_and_then_ends() -> None:
    """One that came and had asked nothing yet is answered; one that is idle ends now; nobody is let in."""

    async def main() -> None:
        async with (
            node_before(echo) as (node, _),
            await RawClient.open(node.port) as fresh,
            await RawClient.open(node.port) as idle,
        ):
            assert (await idle.ask(request(TAGS, None))).status == 200
            await eventually(lambda: node.client_port.connections == 2)
            await node.client_port.part()
            with pytest.raises(ConnectionRefusedError):
                await RawClient.open(node.port)
            async with asyncio.timeout(5):
                assert await idle.reader.read() == b"", "it was told at once"
            assert (await fresh.ask(request(TAGS, None))).status == 200
            async with asyncio.timeout(5):
                assert await fresh.reader.read() == b"", "and once only"

    run_async(main())


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_who_came_in_the_moment_in_which_a_port_stops_is_not_left_open(is_encrypted: bool) -> None:
    """Its connection had no first step yet, so that nobody but the port can end it."""

    async def main() -> None:
        port = PagePort(hello, Limits())
        ours, theirs = socket.socketpair()
        with theirs:
            port._take_in(ours, tls.server_context(identity("anna"), []) if is_encrypted else None, "a host")
            await port.stop()
            await eventually(lambda: ours.fileno() == -1)

    run_async(main())


def certificate(one: Identity) -> bytes:
    """What it shows, as it goes over the wire."""
    return ssl.PEM_cert_to_DER_cert(Path(one.certificate_file).read_text())


@pytest.mark.pure  # a method of a compiled object cannot be watched
@pytest.mark.parametrize("loop_factory", LOOPS)
def test_who_loses_its_place_as_its_handshake_ends_takes_nothing_from_the_next(
    loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket is the loop's by then: closed under it, its number would be the next connection's."""

    async def main() -> None:
        anna, ben = identity("anna"), identity("ben")
        port = PagePort(hello, Limits())
        (sock,) = bind("127.0.0.1", 0, "")
        await port.start(sock, tls.server_context(anna, [certificate(ben)]))
        came = port._connections.came

        def cancels_once(connection: Connection, transport: asyncio.BaseTransport) -> None:
            came(connection, transport)
            monkeypatch.undo()
            (beginning,) = port._handshakes
            asyncio.get_running_loop().call_soon(beginning.cancel)

        monkeypatch.setattr(port._connections, "came", cancels_once)
        context = tls.client_context(ben, certificate(anna))
        for _ in range(3):
            where = {"host": "127.0.0.1", "port": port_of(sock), "ssl": context, "server_hostname": ""}
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection(**where)  # type: ignore[arg-type]
                with suppress(ConnectionError):
                    writer.write(request(TAGS, None))
                    answer = await reader.read(12)
                writer.close()
        assert answer == b"HTTP/1.1 200"
        await port.stop()

    run_async(main(), loop_factory=loop_factory)


class FaultyOnce(socket.socket):
    """Its first accept() fails as no socket should."""

    has_failed = False

    def accept(self) -> tuple[socket.socket, object]:
        if self.has_failed:
            return super().accept()
        self.has_failed = True
        raise RuntimeError("not an OSError")


def test_a_port_outlives_a_fault_in_taking_connections() -> None:
    """It is closed by whoever closes it: a daemon asks for its address, and clients for an answer."""

    async def main() -> None:
        port = PagePort(hello, Limits())
        (bound,) = bind("127.0.0.1", 0, "")
        sock = FaultyOnce(fileno=bound.detach())
        await port.start(sock)
        async with await RawClient.open(port_of(sock)) as client:
            client.writer.write(request(TAGS, None))
            assert (await client.reply()).status == 200
        await port.stop()

    run_async(main())

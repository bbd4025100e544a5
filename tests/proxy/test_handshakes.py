"""The peer port under strangers that open connections and say nothing."""

import asyncio
import sys

import pytest

from pairproxy.config import Limits
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.server import PagePort
from pairproxy.security import tls
from tests.support.fake_engine import eventually
from tests.support.node import identity
from tests.support.open_ports import hello


@pytest.mark.parametrize("loop", [None, pytest.param("uvloop", id="uvloop")])
def test_half_open_handshakes_do_not_keep_a_peer_out(loop: str | None) -> None:
    """Of 200 strangers that hang at most 16 hold a connection, and a peer's handshake goes through."""
    anna, ben = identity("anna"), identity("ben")

    async def main() -> int:
        (sock,) = bind("127.0.0.1", 0, "")
        number = port_of(sock)
        port = PagePort(hello, Limits())
        await port.start(sock, tls.server_context(anna, [ben.certificate]))
        strangers = [await asyncio.open_connection("127.0.0.1", number) for _ in range(200)]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", number, ssl=tls.client_context(ben, anna.certificate)
        )
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        least = 200 - Limits().unauthenticated_connections
        await eventually(lambda: sum(one.at_eof() for one, _ in strangers) >= least)
        held = sum(not one.at_eof() for one, _ in strangers)
        for _, one in [*strangers, (reader, writer)]:
            one.close()
        await port.stop()
        return held

    factory = pytest.importorskip("uvloop").new_event_loop if loop else None
    with asyncio.Runner(loop_factory=factory) as runner:
        assert 0 < runner.run(main()) <= Limits().unauthenticated_connections


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is no address of this machine")
def test_who_opens_connections_without_end_drives_out_only_its_own() -> None:
    """G10: a handshake outlives 200 newer ones of another address (4,000 a second kept four of five out)."""
    anna, ben = identity("anna"), identity("ben")

    async def main() -> None:
        (sock,) = bind("127.0.0.1", 0, "")
        number = port_of(sock)
        port = PagePort(hello, Limits())
        await port.start(sock, tls.server_context(anna, [ben.certificate]))
        reader, writer = await asyncio.open_connection("127.0.0.1", number)
        flood = [
            await asyncio.open_connection("127.0.0.1", number, local_addr=("127.0.0.2", 0))
            for _ in range(200)
        ]
        least = 200 - Limits().unauthenticated_connections
        await eventually(lambda: sum(one.at_eof() for one, _ in flood) >= least)
        assert not reader.at_eof()
        await writer.start_tls(tls.client_context(ben, anna.certificate))
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for _, one in [*flood, (reader, writer)]:
            one.close()
        await port.stop()

    asyncio.run(main())

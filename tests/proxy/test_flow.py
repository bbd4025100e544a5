"""Whether the other side of a connection takes what is written to it."""

import asyncio
import socket

import pytest

from pairproxy.proxy.flow import Flow
from tests.support.running import run_async


async def opened() -> tuple[Flow, asyncio.Transport, socket.socket]:
    """The one side of a connection, and the other."""
    here, there = socket.socketpair()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=here)
    flow = Flow(asyncio.get_running_loop())
    flow.connection_made(transport)
    return flow, transport, there


async def waiting(flow: Flow) -> asyncio.Task[None]:
    """One who waits for the other side."""
    task = asyncio.create_task(flow.drain())
    await asyncio.sleep(0)
    assert not task.done()
    return task


def test_who_writes_waits_only_while_nothing_is_taken() -> None:
    """All who wait go on."""

    async def main() -> None:
        flow, transport, there = await opened()
        await flow.drain()
        flow.pause_writing()
        tasks = [await waiting(flow), await waiting(flow)]
        flow.resume_writing()
        await asyncio.gather(*tasks)
        await flow.drain()
        transport.abort()
        there.close()

    run_async(main())


@pytest.mark.parametrize("error", [None, OSError("reset")])
def test_who_waits_hears_that_the_connection_is_lost(error: OSError | None) -> None:
    """With an error where it is one; nobody waits for one that is lost."""

    async def main() -> None:
        flow, transport, there = await opened()
        flow.pause_writing()
        task = await waiting(flow)
        flow.connection_lost(error)
        if error is None:
            await task
        else:
            with pytest.raises(ConnectionResetError):
                await task
        assert flow.transport is None
        await flow.drain()
        transport.abort()
        there.close()

    run_async(main())


def test_one_who_leaves_ends_nobody_elses_wait() -> None:
    """Each waits on its own."""

    async def main() -> None:
        flow, transport, there = await opened()
        flow.pause_writing()
        leaves, stays = await waiting(flow), await waiting(flow)
        leaves.cancel()
        await asyncio.wait({leaves})
        assert not stays.done()
        flow.resume_writing()
        await stays
        transport.abort()
        there.close()

    run_async(main())


def test_small_writes_are_sent_at_once() -> None:
    """The system does not wait for more of them."""

    async def main() -> None:
        server = await asyncio.start_server(lambda _, __: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, "127.0.0.1", port)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        Flow(asyncio.get_running_loop()).connection_made(transport)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        transport.abort()
        server.close()

    run_async(main())

"""A whole daemon that may have few files open, and more clients than that."""

import contextlib
import itertools
import json
from pathlib import Path

import psutil
import pytest

from pairproxy.descriptors import LOCAL
from pairproxy.security import tls
from pairproxy.security.identity import Identity, load_or_create
from tests.support.daemons import Daemons, Node, settings
from tests.support.fake_engine import eventually
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

resource = pytest.importorskip("resource", reason="this system has no limits of this kind")

FILES = 128
IDLE = 1000
CHAT = json.dumps({"model": "paced:1b", "messages": [{"role": "user", "content": "Hello"}], "stream": False})
LONG = request(
    body=json.dumps(
        {
            "model": "paced:1b",
            "messages": [{"role": "user", "content": "Hi"}],
            "options": {"num_predict": 9999},
        }
    ).encode()
)
AS_PEER = (
    "X-Pairproxy-Attempt: 1",
    "X-Pairproxy-Engine: paced",
    "Content-Type: application/json",
)


def open_files(node: Node) -> int:
    """What the daemon has open."""
    return psutil.Process(node.pid).num_fds()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="Linux lowers the limit of another process")
def test_local_clients_are_served_whatever_the_crowd(tmp_path: Path) -> None:
    """F44: with 128 files, 1,000 idle connections and 40 at work, clients are served and peers hear 503."""
    with Daemons(tmp_path) as daemons:
        daemons.home("A", settings(slots=2, paced={"decode": 2000.0}))
        daemons.home("B", settings(paced={"model": "other:1b"}))
        daemons.pair("A", "B")
        a, b = daemons.start("A", "B")
        daemons.until_connected()
        resource.prlimit(a.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        run_async(crowd(a, load_or_create(b.home), load_or_create(a.home).certificate), timeout=60)
        assert a.status().loop_lag_s < 5.0


async def crowd(a: Node, ben: Identity, certificate: bytes) -> None:
    """What comes at A."""
    numbers = itertools.count()
    context = tls.client_context(ben, certificate)

    async def peer_status() -> int:
        async with await RawClient.open(a.file.peer_port or 0, ssl=context) as peer:
            line = "POST /api/chat HTTP/1.1"
            name = f"X-Pairproxy-Request: {next(numbers)}"
            return (await peer.ask(request(line, CHAT.encode(), name, *AS_PEER))).status

    async def local_status() -> int:
        async with await RawClient.open(a.port) as client:
            return (await client.ask(request(body=CHAT.encode()))).status

    assert (await local_status(), await peer_status()) == (200, 200)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(IDLE):
            await stack.enter_async_context(await RawClient.open(a.port))
        await eventually(lambda: open_files(a) < FILES - LOCAL)
        assert await local_status() == 200
        assert await peer_status() == 200  # idle connections gave way: nobody lacks anything
        for _ in range(40):
            busy = await stack.enter_async_context(await RawClient.open(a.port))
            await busy.send(LONG)
        await eventually(lambda: a.status().queue_length + len(a.status().running) == 40)
        assert await peer_status() == 503
        async with await RawClient.open(a.port) as client:
            assert (await client.ask(request("GET /api/tags HTTP/1.1", None))).status == 200
        assert open_files(a) < FILES
    await eventually(lambda: not a.status().running and not a.status().queue_length)
    assert (await local_status(), await peer_status()) == (200, 200)

"""A machine without an engine: its clients are served by paired machines, and refused while none can."""

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pairproxy.api.client import get_status
from pairproxy.cli.demo.cluster import pair
from pairproxy.config import AdminSettings, EngineKind, EngineSettings, NodeSettings, PeerSettings, Settings
from pairproxy.engines.ports import Ports
from tests.fronts.test_front import get, told
from tests.support.fake_engine import FakeEngine
from tests.support.fake_ollama import ollama_surface
from tests.support.fake_ollama_reply import MODEL
from tests.support.free_ports import free_ports
from tests.support.running import run_async
from tests.support.well_known import NOTHING_NAMED, well_known_ports
from tests.test_daemon import running


@pytest.fixture
def ports() -> Iterator[dict[EngineKind, Ports]]:
    """Well-known ports that are free."""
    with well_known_ports() as known:
        yield known


def ask(port: int, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    """One request with its reply."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@asynccontextmanager
async def requester(home: Path) -> AsyncIterator[Settings]:
    """A daemon without engines, paired with one of the settings that it yields; that one is not running."""
    (peer_port,) = free_ports(1)
    pair({"anna": home, "bert": home.parent / "bert"})
    bert = Settings(
        node=NodeSettings(name="bert"),
        admin=AdminSettings(listen="127.0.0.1:0"),
        peers=PeerSettings(listen=f"127.0.0.1:{peer_port}", loopback=True, discovery=False),
    )
    mine = PeerSettings(
        listen="127.0.0.1:0", loopback=True, discovery=False, static=(f"127.0.0.1:{peer_port}",)
    )
    async with running(home, msgspec.structs.replace(NOTHING_NAMED, peers=mine)):
        yield bert


def test_it_starts_and_is_closed_while_nobody_can_serve(home: Path, ports: dict[EngineKind, Ports]) -> None:
    """A client that starts its own engine looks for a refused connection; the status says why."""

    async def scene() -> None:
        async with running(home, NOTHING_NAMED) as (_, file):
            front = await told(home, "closed")
            assert "no engine answers here" in front.why
            assert [one.kind for one in file.ports] == ["ollama"], "nobody has an LM Studio"
            with pytest.raises(ConnectionRefusedError):
                await asyncio.to_thread(get, ports["ollama"].usual)
            status = await asyncio.to_thread(get_status, home)
            assert status.nodes[0].engines == ()

    run_async(scene())


def test_a_paired_machine_serves_its_clients(home: Path, ports: dict[EngineKind, Ports]) -> None:
    """What `ollama run` and `ollama list` ask is answered; what only an engine here can do says so."""
    port = ports["ollama"].usual

    async def scene() -> None:
        async with requester(home) as bert, FakeEngine(ollama_surface()) as engine:
            entry = EngineSettings(kind="ollama", url=engine.url, listen="")
            async with running(home.parent / "bert", msgspec.structs.replace(bert, engines=(entry,))):
                await told(home, "open")
                assert await asyncio.to_thread(ask, port, "GET", "/") == (200, b"Ollama is running")
                assert await asyncio.to_thread(ask, port, "HEAD", "/") == (200, b"")
                _, version = await asyncio.to_thread(ask, port, "GET", "/api/version")
                assert json.loads(version) == {"version": "0.33.0"}
                _, tags = await asyncio.to_thread(ask, port, "GET", "/api/tags")
                assert [one["name"] for one in json.loads(tags)["models"]] == [MODEL]
                shown, _ = await asyncio.to_thread(ask, port, "POST", "/api/show", {"model": MODEL})
                unknown, _ = await asyncio.to_thread(ask, port, "POST", "/api/show", {"model": "other"})
                assert (shown, unknown) == (200, 404)
                loaded, _ = await asyncio.to_thread(ask, port, "POST", "/api/generate", {"model": MODEL})
                said = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
                chatted, reply = await asyncio.to_thread(ask, port, "POST", "/api/chat", said)
                assert (loaded, chatted, json.loads(reply.splitlines()[-1])["done"]) == (200, 200, True)
                status, refused = await asyncio.to_thread(ask, port, "POST", "/api/pull", {"model": "x"})
                assert status == 502
                assert "POST /api/pull" in json.loads(refused)["error"]
            front = await told(home, "closed")
            assert front.hosts == ()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.to_thread(get, port)

    run_async(scene())


def test_a_listing_that_nobody_fills_is_empty(home: Path, ports: dict[EngineKind, Ports]) -> None:
    """`ollama ps` shows nothing, as it does where nothing is loaded."""

    async def scene() -> None:
        async with requester(home) as bert, FakeEngine(ollama_surface()) as engine:
            entry = EngineSettings(kind="ollama", url=engine.url, listen="")
            async with running(home.parent / "bert", msgspec.structs.replace(bert, engines=(entry,))):
                await told(home, "open")
                port = ports["ollama"].usual
                _, models = await asyncio.to_thread(ask, port, "GET", "/api/v0/models")
                assert json.loads(models) == {"data": []}
                status, _ = await asyncio.to_thread(ask, port, "GET", "/v1/models/other")
                assert status == 404

    run_async(scene())

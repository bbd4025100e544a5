"""The ports of a daemon."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.api.client import get_status, ports_wish, post
from pairproxy.api.ports import PortsAnswer, PortWish
from pairproxy.config import AdminSettings, EngineKind, EngineSettings, Settings
from pairproxy.core.errors import PairproxyError, PortTaken
from pairproxy.daemon import Daemon
from pairproxy.engines.ports import Ports
from pairproxy.fronts import front as front_module
from tests.fronts.test_front import get, told
from tests.support.running import run_async
from tests.support.scripted_engine import ScriptedEngine, serving
from tests.support.well_known import NOTHING_NAMED, well_known_ports
from tests.test_daemon import daemon_of, running

OLLAMA = {"/api/version": {"version": "0.33.0"}, "/api/tags": {"models": []}, "/api/ps": {"models": []}}


def test_all_ports_are_taken_or_none(home: Path) -> None:
    """A daemon that cannot have its admin port leaves the client port to others."""

    async def scene(settings: Settings) -> None:
        with pytest.raises(PortTaken):
            await Daemon(settings, home, lambda done, total: None).run(lambda file: None)

    with socket.socket() as free, socket.create_server(("127.0.0.1", 0)) as held:
        free.bind(("127.0.0.1", 0))
        wanted = free.getsockname()[1]
        free.close()
        entry = EngineSettings(kind="ollama", url="http://127.0.0.1:9", listen=f"127.0.0.1:{wanted}")
        admin = AdminSettings(f"127.0.0.1:{held.getsockname()[1]}")
        run_async(scene(Settings(engines=(entry,), admin=admin)))
        with socket.create_server(("127.0.0.1", wanted)):
            pass


@pytest.fixture
def ports() -> Iterator[dict[EngineKind, Ports]]:
    """Well-known ports that are free."""
    with well_known_ports() as known:
        yield known


LM_STUDIO = {"/api/v0/models": {"data": [{"id": "m", "state": "loaded"}]}, "/v1/models": {"data": []}}
LLAMA_CPP = {"/props": {"total_slots": 4}, "/v1/models": {"object": "list", "data": [{"id": "tiny"}]}}


@pytest.mark.slow
def test_an_engine_that_comes_later_gets_its_front(home: Path, ports: dict[EngineKind, Ports]) -> None:
    """Boot order does not count: LM Studio's front is there once one was seen, and holds no port before."""
    moved = ports["lmstudio"].moved
    assert moved is not None

    async def scene() -> None:
        async with running(home, NOTHING_NAMED):
            assert [one.kind for one in (await asyncio.to_thread(get_status, home)).ports] == ["ollama"]
            async with serving(ScriptedEngine(LM_STUDIO, port=moved)):
                async with asyncio.timeout(30):
                    while len((await asyncio.to_thread(get_status, home)).ports) < 2:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                front = await told(home, "open", "lmstudio")
                assert front.port == ports["lmstudio"].usual
                assert (await asyncio.to_thread(get, front.port, "/v1/models"))[0] == 200
            assert (await told(home, "closed", "lmstudio")).hosts == ()

    run_async(scene())


def test_ollamas_front_stands_for_what_there_is(home: Path, ports: dict[EngineKind, Ports]) -> None:
    """An engine without a port where programs look is found at Ollama's, its own list with it."""

    async def scene() -> None:
        llama = ScriptedEngine(LLAMA_CPP, port=ports["llamacpp"].usual)
        async with serving(llama), running(home, NOTHING_NAMED):
            front = await told(home, "open")
            status, listed = await asyncio.to_thread(get, front.port, "/v1/models")
            assert (status, b'"tiny"' in listed) == (200, True)

    run_async(scene())


@pytest.mark.slow
def test_a_port_is_left_to_an_engine_that_is_restarted(
    home: Path, ports: dict[EngineKind, Ports], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free or not: somebody else could serve, and yet the engine finds its port again; later it is ours."""
    usual = ports["ollama"].usual
    monkeypatch.setattr(front_module, "LEAVE_S", 3.0)

    async def scene() -> None:
        llama = ScriptedEngine(LLAMA_CPP, port=ports["llamacpp"].usual)
        async with serving(llama), running(home, NOTHING_NAMED):
            await told(home, "open")
            await asyncio.to_thread(ports_wish, home, PortWish("give", usual))
            async with serving(ScriptedEngine(OLLAMA, port=usual)):
                await asyncio.to_thread(ports_wish, home, PortWish("usual", usual))
                await told(home, "held")
            await told(home, "closed")
            async with serving(ScriptedEngine(OLLAMA, port=usual)):
                await told(home, "held")
            await told(home, "open")

    run_async(scene())


@pytest.mark.parametrize("body", [b"", b"{}", b'{"want":"have"}', b'{"want":"take","port":9}', b"[" * 999])
def test_a_wish_that_makes_no_sense_is_refused(
    home: Path, ports: dict[EngineKind, Ports], body: bytes
) -> None:
    """With a sentence; nothing changes."""

    async def scene() -> None:
        async with running(home, NOTHING_NAMED):
            with pytest.raises(PairproxyError, match=r'Say \{"want"|no client port 9'):
                await asyncio.to_thread(post, home, "/ports", body, PortsAnswer, lambda told, node: True)

    run_async(scene())


def test_another_program_at_the_port_refuses_the_start(home: Path, ports: dict[EngineKind, Ports]) -> None:
    """It is named; only the engine itself is waited for."""

    async def scene() -> None:
        async with serving(ScriptedEngine({}, port=ports["ollama"].usual, unknown=(200, b"<html>"))):
            with pytest.raises(PortTaken, match=r"\(pid \d+\)"):
                await daemon_of(home, NOTHING_NAMED).run(lambda file: None)

    run_async(scene())

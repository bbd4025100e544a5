"""An engine that may be at two ports, and moves between them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pairproxy.config import EngineSettings
from pairproxy.core.errors import Unreachable, UpstreamError
from pairproxy.engines.ollama import OllamaEngine
from pairproxy.engines.sought import SoughtEngine, Where, places_of
from tests.support.fake_engine import FakeEngine
from tests.support.fake_ollama import ollama_surface
from tests.support.free_ports import free_ports
from tests.support.running import run_async


@asynccontextmanager
async def ollama_at(port: int) -> AsyncIterator[FakeEngine]:
    """An Ollama that runs."""
    async with FakeEngine(ollama_surface(), port=port) as engine:
        yield engine


def sought(ours: set[int]) -> SoughtEngine:
    """One that is nowhere yet."""
    usual, moved = free_ports(2)
    settings = EngineSettings(kind="ollama")
    return SoughtEngine(settings, Where(usual, moved), OllamaEngine, ours.__contains__)


def test_its_name_stays_while_it_moves() -> None:
    """Found at its usual port, then at the other, then back; requests follow it."""

    async def scene() -> None:
        engine = sought(set())
        usual, moved = engine.where.usual, engine.where.moved
        for port in (usual, moved, usual):
            async with ollama_at(port):
                report = await engine.probe()
                assert (report.engine, engine.id) == (f"ollama-{usual}", f"ollama-{usual}")
                assert (engine.port, engine.address("/api/chat")) == (port, ("127.0.0.1", port))

    run_async(scene())


def test_where_it_answers_already_it_is_asked_first() -> None:
    """One that serves here is not exchanged for another that appears at its other port."""

    async def scene() -> None:
        engine = sought(set())
        async with ollama_at(engine.where.usual):
            await engine.probe()
            async with ollama_at(engine.where.moved) as other:
                await engine.probe()
                assert (engine.port, other.requests) == (engine.where.usual, [])

    run_async(scene())


def test_a_port_of_ours_is_never_asked() -> None:
    """What answers there is this daemon: a request would come back to it for ever."""

    async def scene() -> None:
        ours: set[int] = set()
        engine = sought(ours)
        async with ollama_at(engine.where.usual) as answering:
            await engine.probe()
            asked = len(answering.requests)
            ours.add(engine.where.usual)
            assert engine.port is None, "also before it is asked again"
            assert engine.address("/api/chat") == ("127.0.0.1", engine.where.moved)
            with pytest.raises(Unreachable):
                await engine.probe()
            assert len(answering.requests) == asked

    run_async(scene())


def test_another_program_at_its_port_is_no_engine() -> None:
    """It is asked, believed little, and not taken for one."""

    async def scene() -> None:
        engine = sought(set())

        async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(other, "127.0.0.1", engine.where.usual)
        async with server:
            with pytest.raises(UpstreamError) as raised:
                await engine.probe()
        assert not isinstance(raised.value, Unreachable)
        assert engine.port is None

    run_async(scene())


def test_only_what_has_two_ports_and_no_address_is_sought() -> None:
    """An entry with a url is where it says."""
    assert places_of(EngineSettings(kind="ollama")) == Where(11434, 11534)
    assert places_of(EngineSettings(kind="lmstudio")) == Where(1234, 12340)
    assert places_of(EngineSettings(kind="ollama", url="http://127.0.0.1:9")) is None
    assert places_of(EngineSettings(kind="llamacpp")) is None
    assert places_of(EngineSettings(kind="paced")) is None

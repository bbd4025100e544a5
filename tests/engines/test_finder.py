import asyncio
import contextlib
import time
from typing import Any

import pytest

from pairproxy.config import EngineSettings
from pairproxy.engines import finder
from pairproxy.engines.finder import Finder, entries_of, find_engines, looked_for
from pairproxy.engines.ports import PORTS, Ports
from tests.support.embedded import embedded_engine, model_cache
from tests.support.free_ports import free_ports
from tests.support.running import run_async
from tests.support.scripted_engine import ScriptedEngine, serving

pytestmark = pytest.mark.timed

OLLAMA = ScriptedEngine({"/api/version": {"version": "0.33.0"}})
LM_STUDIO = ScriptedEngine(
    {"/api/v0/models": {"data": [{"id": "m", "state": "loaded"}]}, "/v1/models": {"data": []}},
    unknown=(200, {"error": "Unexpected endpoint or method."}),
)
EMPTY_LM_STUDIO = ScriptedEngine(
    {"/api/v0/models": {"data": []}}, unknown=(200, {"error": "Unexpected endpoint"})
)
LLAMA_CPP = ScriptedEngine({"/props": {"total_slots": 4}, "/v1/models": {"data": []}})
VLLM = ScriptedEngine({"/v1/models": {"object": "list", "data": []}})
WEB_SERVER = ScriptedEngine({}, unknown=(200, b"<html>"))
JSON_SERVER = ScriptedEngine({}, unknown=(200, {"status": "ok"}))
SILENT = ScriptedEngine({}, delay_s=30)


def found_among(*engines: ScriptedEngine) -> tuple[list[int], list[EngineSettings]]:
    """The ports of these engines, and what is found there."""

    async def scene() -> tuple[list[int], list[EngineSettings]]:
        async with contextlib.AsyncExitStack() as stack:
            for engine in engines:
                engine.port = 0
                await stack.enter_async_context(serving(engine))
            ports = [engine.port for engine in engines]
            return ports, await find_engines(tuple(ports))

    return run_async(scene())


def test_each_kind_is_told_from_the_others() -> None:
    """Of all that answers on loopback the engines are found, each as what it is, in the order of ports."""
    ports, found = found_among(
        OLLAMA, LM_STUDIO, EMPTY_LM_STUDIO, LLAMA_CPP, VLLM, WEB_SERVER, JSON_SERVER, SILENT
    )
    kinds = ("ollama", "lmstudio", "lmstudio", "llamacpp", "openai")
    assert [(engine.kind, engine.url) for engine in found] == [
        (kind, f"http://127.0.0.1:{port}") for kind, port in zip(kinds, ports, strict=False)
    ]


def test_a_real_llama_server_is_found() -> None:
    """llama.cpp itself answers as it should."""
    cache = model_cache()

    async def scene() -> Any:
        async with embedded_engine(cache, context_tokens=256) as engine:
            return await find_engines((engine.address("/props")[1],))

    assert [engine.kind for engine in run_async(scene())] == ["llamacpp"]


def test_silent_ports_cost_half_a_second_in_all() -> None:
    """Ports are asked at once, so many that say nothing take no longer than one."""
    began = time.monotonic()
    assert found_among(*(ScriptedEngine({}, delay_s=30) for _ in range(6)))[1] == []
    assert time.monotonic() - began < 6 * finder.PROBE_TIMEOUT_S


def test_a_moved_engine_hides_its_front(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Ollama answers at the port it moves to, what answers at its usual port stands in front of it."""
    front, moved = ScriptedEngine(OLLAMA.replies), ScriptedEngine(OLLAMA.replies)

    async def scene() -> list[EngineSettings]:
        async with serving(front), serving(moved):
            monkeypatch.setitem(PORTS, "ollama", Ports(front.port, moved.port))
            return await find_engines((front.port, moved.port))

    assert [engine.url for engine in run_async(scene())] == [f"http://127.0.0.1:{moved.port}"]


def test_what_was_looked_for_names_every_port() -> None:
    """The sentence for a machine with nothing names each port that is tried."""
    sentence = ", ".join(looked_for())
    assert all(str(port) in sentence for port in finder.PORTS_TO_TRY)
    assert "Ollama on port 11434 or 11534" in sentence


def test_engines_that_may_come_are_sought_and_others_are_where_they_were_found() -> None:
    """Ollama and LM Studio at both of their ports, found or not; what else was found gets no client port."""
    found = [
        EngineSettings(kind="ollama", url="http://127.0.0.1:11434"),
        EngineSettings(kind="llamacpp", url="http://127.0.0.1:8080"),
        EngineSettings(kind="ollama", url="http://127.0.0.1:8000"),
    ]
    assert [(one.kind, one.url, one.listen) for one in entries_of(found)] == [
        ("ollama", None, None),
        ("lmstudio", None, None),
        ("llamacpp", "http://127.0.0.1:8080", ""),
        ("ollama", "http://127.0.0.1:8000", ""),
    ]


def test_an_engine_that_comes_later_is_found_and_another_program_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once each: the engine is watched from then on, the program is asked again minutes later."""
    llama, web = ScriptedEngine(LLAMA_CPP.replies), ScriptedEngine({}, unknown=(200, b"<html>"))
    monkeypatch.setattr(finder, "LATER_S", 0.02)

    async def scene() -> None:
        added: list[EngineSettings] = []
        async with serving(web), serving(llama):
            (free,) = free_ports(1)
            monkeypatch.setattr(finder, "LATER_PORTS", (web.port, llama.port, free))
            looking = Finder([], added.append, lambda port: False)
            task = asyncio.create_task(looking.run())
            async with asyncio.timeout(10):
                while not added:  # noqa: ASYNC110 it tells nobody else
                    await asyncio.sleep(0.01)
            asked = len(web.asked)
            await asyncio.sleep(0.2)
            assert [(one.kind, one.url) for one in added] == [("llamacpp", f"http://127.0.0.1:{llama.port}")]
            assert len(web.asked) == asked > 0
            task.cancel()
            await asyncio.wait([task])

    run_async(scene())

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from pairproxy.config import PacedSettings
from pairproxy.core.errors import ConfigError, Unreachable
from pairproxy.core.models import Replica
from pairproxy.engines.paced import PacedEngine
from pairproxy.interfaces import Engine
from tests.support.running import run_async

QUICK = PacedSettings(prefill=1e6, decode=2000.0)


async def complete(engine: PacedEngine, tokens: int) -> Any:
    """One whole completion of so many tokens."""
    host, port = engine.address("/v1/completions")
    body = json.dumps({"prompt": "hello", "max_tokens": tokens}).encode()
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{host}:{port}/v1/completions", data=body) as reply,
    ):
        return await reply.json()


def test_it_is_an_engine() -> None:
    """It has what the daemon asks of every engine, and says what it serves."""

    async def play() -> None:
        engine: Engine = PacedEngine(PacedSettings(model="Toy", load_s=60), slots=3)
        await engine.start()
        try:
            report = await engine.probe()
            own, face = engine.address("/v1/models"), engine.address("/api/tags")
            assert engine.address("/") == face != own
        finally:
            await engine.stop()
        assert (report.engine, report.kind, report.slots) == ("paced", "paced", 3)
        ((replica, is_loaded),) = report.replicas
        assert replica == Replica(replica.model, "paced:Toy", replica.context_tokens)
        assert replica.model == "toy:latest"
        assert not is_loaded

    run_async(play())


def test_a_stopped_engine_cannot_be_reached() -> None:
    """Before start and after stop there is no address; stopping twice is no harm."""

    async def play() -> None:
        engine = PacedEngine(QUICK)
        with pytest.raises(Unreachable):
            await engine.probe()
        await engine.start()
        await engine.stop()
        await engine.stop()
        with pytest.raises(Unreachable):
            engine.address("/v1")

    run_async(play())


def test_stopping_breaks_off_what_runs() -> None:
    """A reply that would take an hour does not hold the engine up."""

    async def play() -> None:
        engine = PacedEngine(PacedSettings(decode=1.0))
        await engine.start()
        running = asyncio.create_task(complete(engine, 3600))
        await engine.gpu.slots.until(lambda: engine.gpu.slots.running > 0)
        async with asyncio.timeout(5):
            await engine.stop()
        with pytest.raises(aiohttp.ClientError):
            await running

    run_async(play())


def test_it_says_whether_it_was_given_too_much() -> None:
    """Requests beyond the slots wait, and the record shows it; within the slots nobody waits."""

    async def play() -> list[tuple[int, int]]:
        engine = PacedEngine(QUICK, slots=2)
        await engine.start()
        record = []
        try:
            for together in (2, 5):
                await asyncio.gather(*(complete(engine, 20) for _ in range(together)))
                record.append((engine.gpu.slots.max_in_flight, engine.gpu.slots.ever_waited))
        finally:
            await engine.stop()
        return record

    assert run_async(play()) == [(2, 0), (5, 3)]


def test_a_client_that_leaves_frees_its_slot() -> None:
    """The next request starts at once, and settled() tells when the slot is free."""

    async def play() -> int:
        engine = PacedEngine(PacedSettings(prefill=1e6, decode=1000.0))
        await engine.start()
        try:
            leaving = asyncio.create_task(complete(engine, 100_000))
            await engine.gpu.slots.until(lambda: engine.gpu.slots.running > 0)
            leaving.cancel()
            async with asyncio.timeout(5):
                await engine.settled(0)
                reply = await complete(engine, 3)
            return int(reply["usage"]["completion_tokens"])
        finally:
            await engine.stop()

    assert run_async(play()) == 3


def test_loading_is_told_once() -> None:
    """The first reply has load_ms, the second has not."""

    async def play() -> tuple[Any, Any, bool]:
        engine = PacedEngine(PacedSettings(prefill=1e6, decode=2000.0, load_s=0.05))
        await engine.start()
        try:
            replies = [await complete(engine, 2) for _ in range(2)]
            return *(reply["timings"].get("load_ms") for reply in replies), engine.gpu.is_loaded
        finally:
            await engine.stop()

    first, second, is_loaded = run_async(play())
    assert 50 <= first < 50 * 10
    assert second is None
    assert is_loaded


@pytest.mark.parametrize(
    "wrong",
    [{"prefill": 0}, {"decode": -1}, {"beta": -0.1}, {"load_s": -1}, {"cached_tokens": -1}, {"slots": 0}],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    """A rate of nothing would wait for ever."""
    slots = wrong.pop("slots", 1)
    with pytest.raises(ConfigError, match="paced"):
        PacedEngine(PacedSettings(**wrong), slots=slots)

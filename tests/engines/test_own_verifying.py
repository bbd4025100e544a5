"""When the engines of this node are asked whether they go on with the beginning of a reply."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from pairproxy.config import EngineSettings, Limits, PacedSettings
from pairproxy.core.events import EngineReported, Event
from pairproxy.core.models import ModelName
from pairproxy.engines import own as own_module
from pairproxy.engines.own import OwnEngines
from tests.support.fake_engine import eventually
from tests.support.running import run_async

WARM = EngineSettings(kind="paced", listen="", paced=PacedSettings(decode=500.0))
GOES_ON = frozenset({ModelName("paced:1b")})


@contextlib.asynccontextmanager
async def watched(is_on: Callable[[], bool]) -> AsyncIterator[tuple[list[frozenset[ModelName]], list[str]]]:
    """A paced engine, measured and told of: (the models of each report that go on, the tasks by name)."""
    engines = OwnEngines((WARM,), Path("unused"), lambda done, total: None, Limits())
    seen: list[frozenset[ModelName]] = []
    names: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    def tell(event: Event) -> None:
        if isinstance(event, EngineReported):
            seen.append(event.report.continuing)

    await engines.start()
    async with asyncio.TaskGroup() as group:

        def spawn(name: str, work: Any) -> None:
            names.append(name)
            tasks.append(group.create_task(work))

        engines.watch(tell, time.monotonic, spawn, is_continuing=is_on)
        try:
            await engines.until_told()
            yield seen, names
        finally:
            for task in tasks:
                task.cancel()
            await engines.stop()


def test_an_engine_is_asked_once_it_is_told_of() -> None:
    """Its report is told again with what was seen; clients need not wait for that."""

    async def scene() -> None:
        async with watched(lambda: True) as (seen, names):
            await eventually(lambda: len(seen) == 2)
            assert seen == [frozenset(), GOES_ON]
            assert names.count("verify paced") == 1

    run_async(scene())


def test_without_the_setting_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs nothing, however often it is looked at."""
    monkeypatch.setattr(own_module, "SETTING_S", 0.001)
    looks: list[None] = []

    def is_on() -> bool:
        looks.append(None)
        return False

    async def scene() -> None:
        async with watched(is_on) as (seen, names):
            await eventually(lambda: len(looks) > 3)
            assert (seen, "verify paced" in names) == ([frozenset()], False)

    run_async(scene())


def test_a_setting_that_comes_later_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that was told of without it is asked once it is there."""
    monkeypatch.setattr(own_module, "SETTING_S", 0.01)
    settings: list[bool] = []

    async def scene() -> None:
        async with watched(lambda: bool(settings)) as (seen, _):
            assert seen == [frozenset()]
            settings.append(True)
            await eventually(lambda: seen[-1] == GOES_ON)

    run_async(scene())

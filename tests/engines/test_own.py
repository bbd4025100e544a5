import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pairproxy.config import EngineSettings, Limits, PacedSettings
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import ConfigError, Unreachable
from pairproxy.core.events import EngineLost, EngineReported, Event, SpeedMeasured
from pairproxy.core.models import EngineId
from pairproxy.engines import own as own_module
from pairproxy.engines.own import OwnEngines
from tests.support.engine_scripts import json_reply, ollama
from tests.support.fake_engine import FakeEngine, eventually
from tests.support.running import run_async

pytestmark = pytest.mark.timed

PACED = EngineSettings(kind="paced", slots=2, listen="", paced=PacedSettings(decode=500.0, load_s=0.1))


def found(engine: FakeEngine) -> EngineSettings:
    """An Ollama that runs already."""
    return EngineSettings(kind="ollama", url=engine.url, listen="")


def of(*entries: EngineSettings) -> OwnEngines:
    """Built, not started."""
    return OwnEngines(entries, Path("unused"), lambda done, total: None, Limits())


@asynccontextmanager
async def watched(engines: OwnEngines) -> AsyncIterator[list[Event]]:
    """Started and watched; yields what is told."""
    told: list[Event] = []
    tasks: list[asyncio.Task[None]] = []
    await engines.start()
    async with asyncio.TaskGroup() as group:
        engines.watch(told.append, time.monotonic, lambda name, work: tasks.append(group.create_task(work)))
        try:
            yield told
        finally:
            for task in tasks:
                task.cancel()
            await engines.stop()


def reports(told: list[Event]) -> list[EngineReported]:
    """Those events that tell of an engine."""
    return [event for event in told if isinstance(event, EngineReported)]


def test_an_engine_of_our_own_is_measured_before_it_is_told_of() -> None:
    """First its speed, then that it is there: nobody is sent to it while it is being measured."""

    async def scene() -> None:
        engines = of(PACED)
        async with watched(engines) as told:
            await engines.until_told()
            alone, together, reported = told
            assert isinstance(alone, SpeedMeasured)
            assert isinstance(together, SpeedMeasured)
            assert isinstance(reported, EngineReported)
            assert (alone.engine, alone.company) == ("paced", 1)
            assert (together.engine, together.company) == ("paced", 2), "as many at once as it has slots"

    run_async(scene())


def test_what_the_measurement_loaded_is_told_as_loaded() -> None:
    """The report after it is a new one: a model that counts as cold would be avoided for nothing."""

    async def scene() -> None:
        engines = of(PACED)
        async with watched(engines) as told:
            await engines.until_told()
            (event,) = reports(told)
            assert [is_loaded for _, is_loaded in event.report.replicas] == [True]
            assert event.report.slots == 2

    run_async(scene())


def test_an_engine_that_was_found_is_told_of_and_left_in_peace() -> None:
    """Its models are listed; no request makes it load one."""

    async def scene() -> None:
        script = ollama({"m:1b": "a" * 64}, chat=json_reply({"error": "nobody asked"}, 500))
        async with FakeEngine(script) as engine:
            engines = of(found(engine))
            async with watched(engines) as told:
                await engines.until_told()
                (event,) = reports(told)
                assert [replica.model for replica, _ in event.report.replicas] == ["m:1b"]
            assert {request.method for request in engine.requests if "chat" in request.path} == set()

    run_async(scene())


def test_an_engine_that_is_off_does_not_hold_up_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are told of; it is waited for a moment only."""
    monkeypatch.setattr(own_module, "FOUND_NEWS_S", 0.1)

    async def scene() -> None:
        async with FakeEngine(json_reply({})) as engine:
            off = found(engine)
        engines = of(PACED, off)
        async with watched(engines) as told:
            began_at = time.monotonic()
            await engines.until_told()
            assert time.monotonic() - began_at < 3.0
            assert [event.report.engine for event in reports(told)] == ["paced"]

    run_async(scene())


def test_an_engine_that_ends_is_lost() -> None:
    """The monitor's news is told on."""

    async def scene() -> None:
        async with FakeEngine(ollama({"m:1b": "a" * 64}, chat=json_reply({}))) as engine:
            engines = of(found(engine))
            async with watched(engines) as told:
                await engines.until_told()
                engine.stop_listening()
                await eventually(lambda: any(isinstance(event, EngineLost) for event in told))

    run_async(scene())


def test_two_engines_of_one_name_are_refused() -> None:
    """A place must mean one engine."""
    with pytest.raises(ConfigError, match="Two engines are called paced"):
        of(PACED, PACED)


@pytest.mark.parametrize("ask", [OwnEngines.upstream, OwnEngines.authority])
def test_an_engine_that_is_not_there_cannot_be_reached(ask: Callable[[OwnEngines, EngineId], object]) -> None:
    """A peer may name any engine; only ours lead anywhere."""
    with pytest.raises(Unreachable):
        ask(of(PACED), EngineId("other"))


def test_its_address_stands_in_the_host_header() -> None:
    """host:port on loopback while it runs; gone after stop(), which may be called twice."""

    async def scene() -> None:
        engines = of(PACED)
        await engines.start()
        host, _, port = engines.authority(EngineId("paced")).partition(":")
        assert (host, int(port) > 0) == ("127.0.0.1", True)
        await engines.stop()
        await engines.stop()
        with pytest.raises(Unreachable):
            engines.authority(EngineId("paced"))

    run_async(scene())


def test_an_engine_serves_its_aliases_too(caplog: pytest.LogCaptureFixture) -> None:
    """It is told of with the names that a person gave its models; a name that leads nowhere is warned of."""

    async def scene() -> None:
        script = ollama({"org/m": "a" * 64}, chat=json_reply({}))
        async with FakeEngine(script) as engine:
            entry = EngineSettings(
                kind="ollama", url=engine.url, listen="", aliases={"Small": "Org/M", "x": "gone"}
            )
            async with watched(of(entry)) as told:
                await eventually(lambda: bool(reports(told)))
                replicas = [replica for replica, _ in reports(told)[0].report.replicas]
                assert [(one.model, one.called) for one in replicas] == [
                    ("org/m:latest", None),
                    ("small:latest", "Org/M"),
                ]
            (warning,) = [record.getMessage() for record in caplog.records if "alias" in record.getMessage()]
            assert "'x'" in warning
            assert "'gone'" in warning

    run_async(scene())


def test_an_engine_whose_speed_is_known_is_not_measured_again() -> None:
    """It is told of at once."""

    async def scene() -> None:
        engines, told, tasks = of(PACED), list[Event](), list[asyncio.Task[None]]()
        asked: list[str] = []

        def is_known(report: EngineReport) -> bool:
            asked.append(report.engine)
            return True

        await engines.start()
        async with asyncio.TaskGroup() as group:
            engines.watch(
                told.append,
                time.monotonic,
                lambda name, work: tasks.append(group.create_task(work)),
                is_known,
            )
            await engines.until_told()
            for task in tasks:
                task.cancel()
        await engines.stop()
        assert [type(event) for event in told] == [EngineReported]
        assert asked == ["paced"]

    run_async(scene())

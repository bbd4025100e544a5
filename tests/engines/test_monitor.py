import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable

import pytest

from pairproxy.config import EngineSettings
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import BrokenReply
from pairproxy.core.models import EngineId
from pairproxy.engines import monitor
from pairproxy.engines.monitor import EngineMonitor
from pairproxy.engines.ollama import OllamaEngine
from tests.support.running import run_async
from tests.support.scripted_engine import ScriptedEngine, serving

pytestmark = pytest.mark.timed

A = "a" * 64
Told = list[EngineReport | EngineId]


def ollama(version: str = "0.33.0") -> ScriptedEngine:
    """An Ollama with one model."""
    tags = {"models": [{"name": "m", "digest": A}]}
    return ScriptedEngine(
        {"/api/version": {"version": version}, "/api/tags": tags, "/api/ps": {"models": []}}
    )


@contextlib.asynccontextmanager
async def monitoring(*engines: ScriptedEngine, interval_s: float = 0.05) -> AsyncIterator[Told]:
    """Watch these engines; gives the list of what was told."""
    told: Told = []
    watched = [
        OllamaEngine(EngineSettings(kind="ollama", url=f"http://127.0.0.1:{engine.port}"))
        for engine in engines
    ]
    watching = EngineMonitor(
        watched, told.append, told.append, interval_s=interval_s, jitter=random.Random(1)
    )
    task = asyncio.create_task(watching.run(), name="monitor")
    try:
        yield told
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Wait until it is true."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - conditions on lists tell nobody
            await asyncio.sleep(0.01)


def test_only_changes_are_told() -> None:
    """Many equal probes are told once; a change is told when it comes."""

    async def scene() -> None:
        async with serving(ollama()) as engine, monitoring(engine) as told:
            await until(lambda: engine.asked.count("/api/ps") >= 5)
            assert [type(one) for one in told] == [EngineReport]
            engine.replies["/api/ps"] = {"models": [{"name": "m", "digest": A, "context_length": 4096}]}
            await until(lambda: len(told) == 2)
            report = told[1]
            assert isinstance(report, EngineReport)
            assert report.replicas[0][1] is True

    run_async(scene())


def test_loss_and_return_are_told_once_each() -> None:
    """A refused connection is a loss at once, told once; the return is a report again, even an equal one."""

    async def scene() -> None:
        engine = ollama()
        async with contextlib.AsyncExitStack() as stack:
            async with serving(engine):
                told = await stack.enter_async_context(monitoring(engine))
                await until(lambda: len(told) == 1)
            await until(lambda: len(told) == 2)
            assert told[1] == f"ollama-{engine.port}"
            async with serving(engine):
                await until(lambda: len(told) == 3)
            assert told[2] == told[0]

    run_async(scene())


def test_one_bad_answer_is_no_loss_but_three_are() -> None:
    """An engine that answers nonsense once is kept; one that goes on so is lost."""

    async def scene() -> None:
        async with serving(ollama()) as engine, monitoring(engine) as told:
            await until(lambda: len(told) == 1)
            tags = engine.replies.pop("/api/tags")
            failed_from = engine.asked.count("/api/tags")
            await until(lambda: engine.asked.count("/api/tags") > failed_from)
            engine.replies["/api/tags"] = tags
            await until(lambda: engine.asked.count("/api/ps") >= 3)
            assert len(told) == 1
            del engine.replies["/api/tags"]
            failed_from = engine.asked.count("/api/tags")
            await until(lambda: len(told) == 2)
            assert engine.asked.count("/api/tags") - failed_from >= monitor.FAILURES_UNTIL_LOST

    run_async(scene())


def test_an_engine_that_hangs_is_lost() -> None:
    """Probes are bounded in time, so silence counts as failing to answer."""

    async def scene() -> None:
        async with serving(ollama()) as engine, monitoring(engine) as told:
            await until(lambda: len(told) == 1)
            engine.delay_s = 600
            await until(lambda: len(told) == 2, within_s=20)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(monitor, "PROBE_TIMEOUT_S", 0.2)
        run_async(scene(), timeout=30)


def test_probes_of_one_engine_never_overlap() -> None:
    """An engine slower than the interval is asked one question at a time, and others are not held up."""

    async def scene() -> None:
        slow, fast = ollama(), ollama()
        slow.delay_s = 0.15
        async with serving(slow), serving(fast), monitoring(slow, fast, interval_s=0.01) as told:
            await until(lambda: slow.asked.count("/api/ps") >= 2)
            assert (slow.most_at_once, len(told)) == (1, 2)
            assert len(fast.asked) > 2 * len(slow.asked)

    run_async(scene())


def test_a_look_asks_at_once_and_returns_when_it_was_asked() -> None:
    """Whoever moved an engine knows where it is now, long before its turn comes."""

    async def scene() -> None:
        engine = ollama()
        async with serving(engine):
            url = f"http://127.0.0.1:{engine.port}"
            told: Told = []
            watching = EngineMonitor([], told.append, told.append, interval_s=3600.0, jitter=random.Random(1))
            task = asyncio.create_task(watching.run(), name="monitor")
            await watching.look(5.0)
            await asyncio.sleep(0)
            watching.add(OllamaEngine(EngineSettings(kind="ollama", url=url)))
            await until(lambda: len(told) == 1)
            engine.replies["/api/version"] = {"version": "0.34.0"}
            await watching.look(5.0)
            assert [one.version for one in told if isinstance(one, EngineReport)] == ["0.33.0", "0.34.0"]
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    run_async(scene())


def test_one_that_is_not_there_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody waits for its first word; and another program in its place is soon asked rarely."""
    monkeypatch.setattr(monitor, "STRANGE", 2)
    asked: list[float] = []

    class Strange:
        """What answers, and is no engine."""

        id, kind = EngineId("strange"), "ollama"
        listen: str | None = None

        def address(self, path: str) -> tuple[str, int]:
            return "127.0.0.1", 9

        async def start(self) -> None: ...
        async def stop(self) -> None: ...
        async def settled(self, others_in_flight: int) -> None: ...
        async def probe(self) -> EngineReport:
            asked.append(asyncio.get_running_loop().time())
            raise BrokenReply("It is no Ollama.")

    async def scene() -> None:
        absent: list[EngineId] = []
        told: Told = []
        watching = EngineMonitor(
            [Strange()], told.append, told.append, absent.append, interval_s=0.01, jitter=random.Random(1)
        )
        task = asyncio.create_task(watching.run(), name="monitor")
        await until(lambda: len(asked) >= 2)
        await asyncio.sleep(0.2)
        assert (absent, told, len(asked)) == ([EngineId("strange")], [], 2)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    run_async(scene())

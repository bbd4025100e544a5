import asyncio
import http.client
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from pairproxy.clock import MonotonicClock
from pairproxy.config import Limits, NodeSettings, Settings, TracingSettings
from pairproxy.core.errors import ConfigError
from pairproxy.core.events import AttemptFinished, EngineReported, RequestArrived
from pairproxy.core.models import AttemptId, ModelName, Outcome, Request, Usage
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher
from pairproxy.observing import Observing
from pairproxy.peers.book import PeerBook
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.listening import bind, port_of
from pairproxy.security import tls
from pairproxy.security.private_files import ensure_private_directory
from tests.core.told import ask, report
from tests.support.node import identity, settled_at_once
from tests.support.running import run_async

OWN = identity("observing")
SECRET = ModelName("the-clients-own-words")


@dataclass
class Observed:
    """What looks on, what it looks at, and the port that tells of it."""

    observing: Observing
    dispatcher: Dispatcher
    number: int

    async def get(self, path: str) -> tuple[int, str]:
        """(status, body) of a GET."""
        return await asyncio.to_thread(self._get, path)

    def _get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.number, timeout=10)
        connection.request("GET", path)
        response = connection.getresponse()
        body = "" if path == "/events" else response.read().decode()
        connection.close()
        return response.status, body

    def served(self, request: Request) -> None:
        """A request comes and is answered at once."""
        at = self.dispatcher.now()
        self.dispatcher.tell(RequestArrived(at, request))
        done = AttemptFinished(at + 1.0, AttemptId(request.id, 1), Outcome.DONE, Usage(10, None, 20))
        self.dispatcher.tell(done)


def observing(home: Path, settings: Settings, scheduler: Scheduler, dispatcher: Dispatcher) -> Observing:
    """As the daemon builds it, with no peer."""
    book = PeerBook(lambda _: None, lambda: 0.0, lambda der: tls.client_context(OWN, der), Limits())
    return Observing(
        settings, home, scheduler, dispatcher, book, lambda: None, lambda: None, lambda: 0.0, "anna"
    )


@asynccontextmanager
async def observed(home: Path) -> AsyncIterator[Observed]:
    """All that looks on, begun and ended as the daemon does it."""
    ensure_private_directory(home)
    scheduler = Scheduler(OWN.device_id)
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group, AsyncExitStack() as stack:

        def spawn(name: str, work: object) -> object:
            tasks.append(group.create_task(work, name=name))  # type: ignore[arg-type]
            return tasks[-1]

        dispatcher = Dispatcher(scheduler, MonotonicClock(), settled_at_once, spawn)
        looks_on = observing(home, Settings(), scheduler, dispatcher)
        looks_on.start(spawn, stack)
        port = looks_on.port({"gpu": 1}, Limits(), Gate("testhost"), "token", {})
        (sock,) = bind("127.0.0.1", 0, "")
        number = port_of(sock)
        await port.start(sock)
        stack.push_async_callback(port.stop)
        dispatcher.tell(EngineReported(dispatcher.now(), report()))
        yield Observed(looks_on, dispatcher, number)
        dispatcher.close()
        for task in tasks:
            task.cancel()


def test_every_page_answers(tmp_path: Path) -> None:
    """Each path that is put together here is there before anything happened."""

    async def main() -> None:
        async with observed(tmp_path / "home") as seen:
            paths = [*seen.observing._pages()]
            assert {"/metrics", "/events", "/models"} <= set(paths)
            assert {path: (await seen.get(path))[0] for path in paths} == dict.fromkeys(paths, 200)

    run_async(main())


def test_what_ended_is_told_by_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One request, in the status, the metrics and the log; a name that only its client said is in none."""

    async def main() -> None:
        async with observed(tmp_path / "home") as seen:
            with caplog.at_level(logging.INFO):
                seen.served(ask("known"))
                seen.served(replace(ask("unknown"), model=SECRET))
            status = msgspec.json.decode((await seen.get("/status"))[1])
            assert status["outcomes"]["done"] == 1
            assert sum(status["outcomes"].values()) == 2
            metrics = (await seen.get("/metrics"))[1]
            assert 'pairproxy_requests_total{model="m:latest",' in metrics
            assert 'pairproxy_requests_total{model="unknown",' in metrics
            assert SECRET not in metrics

    run_async(main())
    fields = [one.__dict__["fields"] for one in caplog.records if one.name == "pairproxy.request_log"]
    assert [(one["request"], one["model"]) for one in fields] == [
        ("known", "m:latest"),
        ("unknown", "unknown"),
    ]
    assert {one["node"] for one in fields if "node" in one} == {"anna"}
    assert SECRET not in caplog.text


def test_a_name_that_was_changed_is_told(tmp_path: Path) -> None:
    """Settings that are read anew reach the faces."""

    async def main() -> None:
        async with observed(tmp_path / "home") as seen:
            seen.observing.follow_settings(Settings(node=NodeSettings("berta")), "berta")
            assert 'name="berta"' in (await seen.get("/metrics"))[1]
            assert msgspec.json.decode((await seen.get("/status"))[1])["name"] == "berta"

    run_async(main())


def test_a_setting_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    """Before anything is begun, with a sentence."""

    async def main() -> None:
        scheduler = Scheduler(OWN.device_id)
        dispatcher = Dispatcher(scheduler, MonotonicClock(), settled_at_once, lambda *_: None)
        settings = Settings(tracing=TracingSettings("no address"))
        with pytest.raises(ConfigError, match=r"tracing\.endpoint"):
            observing(tmp_path, settings, scheduler, dispatcher)

    run_async(main())

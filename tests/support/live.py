"""A port that is watched, before made-up facts: tell what happens, and see what is told of it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import ClientResponse, ClientSession, ClientTimeout

from pairproxy.admin.live import Live
from pairproxy.admin.server import AdminPort
from pairproxy.api.schema import Explanation, Report, Status
from pairproxy.config import Limits
from pairproxy.core.commands import Command
from pairproxy.core.errors import NotRemembered
from pairproxy.core.events import Event
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.listening import bind, port_of
from tests.support.running import run_async

STATUS = Status("0.1.0", "N", "anna", 1.0, "fastest-finish", False, 0, (), (), 0, None, {}, None)


class Facts:
    """A node whose status is numbered, by its requests that are done; ``runs`` are reported with each."""

    def __init__(self) -> None:
        self.made = 0
        self.queue_length = 0
        self.name = "anna"
        self.runs: tuple[int, str] | None = None
        self.report_s: float | None = None
        self.whole: Callable[[], object] = lambda: None  # done in a thread for each whole status
        self.partly: Callable[[], object] = lambda: None  # and for one without new reports
        self.read: Callable[[], object] = lambda: None  # done on the loop for both

    def status(self) -> Callable[[], Status]:
        self.read()
        return self._status(self.whole)

    def _status(self, act: Callable[[], object]) -> Callable[[], Status]:
        self.made += 1
        status = msgspec.structs.replace(
            STATUS, requests_done=self.made, queue_length=self.queue_length, name=self.name
        )

        def make() -> Status:
            act()
            return status

        return make

    def unreckoned(self) -> Callable[[], Status]:
        self.read()
        return self._status(self.partly)

    def lately(self) -> Status:
        return self._status(lambda: None)()

    def reported(self) -> tuple[int, str] | None:
        return self.runs

    def next_report_s(self) -> float | None:
        return self.report_s

    def report(
        self, name: str | None, *, with_recording: bool = False, is_watched: bool = False
    ) -> Callable[[], Report]:
        return lambda: Report(None, (), {})

    def explanation(self, request: str) -> Explanation:
        raise NotRemembered("No request by this id is in memory.")

    def is_ready(self) -> bool:
        return True


class Scene:
    """A port that is watched: tell() what happens, watch() it."""

    def __init__(self, facts: Facts, told: Live, session: ClientSession, url: str, port: AdminPort) -> None:
        self.facts, self.live, self.session, self.url, self.port = facts, told, session, url, port

    def tell(self, event: Event, *commands: Command) -> None:
        self.live.heard(event, list(commands))

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[ClientResponse]:
        async with self.session.get(self.url) as response:
            yield response

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(5.0):
            while not is_so():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


Told = tuple[str, bytes]


async def following(response: ClientResponse) -> Told:
    """The next event: its name and data."""
    name = ""
    while line := await response.content.readline():
        if line.startswith(b"event: "):
            name = line[7:].decode().strip()
        elif line.startswith(b"data: "):
            return name, line[6:].strip()
    return "end", b""


async def status_of(response: ClientResponse) -> Status:
    """The next event, which is a status."""
    name, data = await following(response)
    assert name == "status"
    return msgspec.json.decode(data, type=Status)


def watched(play: Callable[[Scene], Awaitable[None]], now: Callable[[], float] = time.monotonic) -> None:
    """Play a scene before a live port on loopback."""

    async def scene() -> None:
        facts = Facts()
        told = Live(facts, now)
        port = AdminPort(facts, Limits(), Gate("testhost"), "", {}, {"/events": told.events})
        (sock,) = bind("127.0.0.1", 0, "")
        url = f"http://127.0.0.1:{port_of(sock)}/events"
        await port.start(sock)
        running = asyncio.create_task(told.run())
        try:
            async with ClientSession(timeout=ClientTimeout(total=None)) as session:
                await play(Scene(facts, told, session, url, port))
        finally:
            running.cancel()
            await port.stop()
            await asyncio.gather(running, return_exceptions=True)

    run_async(scene())

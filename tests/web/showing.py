"""The page at a real admin port that tells of made-up things: names that lie, runs of thousands of requests.

Only what is told is made up (admin.server.Facts says what that is); the port, its gate and the page are real.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pairproxy.admin.server import AdminPort, Page
from pairproxy.api.schema import Explanation, Report, Status
from pairproxy.config import Limits
from pairproxy.core.errors import NotRemembered
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.listening import bind, port_of
from pairproxy.responses import Asked, Response, StreamResponse
from pairproxy.web.serving import page_handlers

DEADLINE_S = 20.0


@dataclass
class Facts:
    """What is told; a test may change it meanwhile. ``documents``: path -> what else is answered there."""

    told: Status
    reported: Report
    explained: Explanation | None = None
    documents: dict[str, object] = field(default_factory=dict)
    watchers: int = 0  # streams that are open
    is_silent: bool = False  # streams say nothing more but that they are there, nor does /status answer

    def status(self) -> Callable[[], Status]:
        def make() -> Status:
            while self.is_silent:
                time.sleep(0.05)
            return self.told

        return make

    def report(self, name: str | None, **_: bool) -> Callable[[], Report]:
        return lambda: self.reported

    def explanation(self, request: str) -> Explanation:
        if self.explained is None:
            raise NotRemembered("No request by this id is in memory.")
        return self.explained

    def is_ready(self) -> bool:
        return True


def _pages(facts: Facts, *, has_events: bool) -> Mapping[str, Page]:
    """The page, the other documents, and a stream of statuses, two a second."""

    def document(path: str) -> Page:
        async def answer(_: Asked) -> StreamResponse:
            return Response(body=msgspec.json.encode(facts.documents[path]), content_type="application/json")

        return answer

    async def events(request: Asked) -> StreamResponse:
        response = StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        facts.watchers += 1
        try:
            while True:
                told = b"event: status\ndata: %b\n\n" % msgspec.json.encode(facts.told)
                await response.write(b":\n\n" if facts.is_silent else told)
                await asyncio.sleep(0.1)
        except ConnectionError:
            return response
        finally:
            facts.watchers -= 1

    pages: dict[str, Page] = {**page_handlers(), **{path: document(path) for path in facts.documents}}
    return pages | ({"/events": events} if has_events else {})


@contextlib.contextmanager
def shown(facts: Facts, *, has_events: bool = True) -> Iterator[str]:
    """Serve in a thread of its own; yields the address of the page."""
    is_ready, ports = threading.Event(), list[int]()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def live() -> None:
        port: Any = AdminPort(facts, Limits(), Gate("testhost"), "", {}, _pages(facts, has_events=has_events))
        (sock,) = bind("127.0.0.1", 0, "")
        ports.append(port_of(sock))
        await port.start(sock)
        is_ready.set()
        await stop.wait()
        await port.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()), name="shown", daemon=True)
    thread.start()
    assert is_ready.wait(DEADLINE_S)
    try:
        yield f"http://localhost:{ports[0]}/"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "the port did not stop"
        loop.close()

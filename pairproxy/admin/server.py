"""The admin port. Nothing can be changed over it yet. Host and Origin are checked as on a client port."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec
from aiohttp import web

from pairproxy.api.schema import Explanation, Report, Status
from pairproxy.config import Limits
from pairproxy.core.errors import NotRemembered, PairproxyError, RequestError
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.server import Port

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class Facts(Protocol):
    """What the port tells. What takes long to reckon is answered with a function for another thread."""

    def status(self) -> Callable[[], Status]:
        """GET /status."""

    def report(self, name: str | None, *, with_recording: bool = False) -> Callable[[], Report]:
        """GET /report."""

    def explanation(self, request: str) -> Explanation:
        """GET /requests/ID. Raises RequestError."""

    def is_ready(self) -> bool:
        """GET /ready."""


class AdminPort(Port):
    """GET /status, /report[?run=NAME][&recording=true], /requests/ID, /health, /ready.

    A report can take parts of a second to reckon: that is done in a thread, and one at a time.
    """

    def __init__(self, view: Facts, limits: Limits, gate: Gate) -> None:
        super().__init__(self._handle, limits)
        self._view = view
        self._gate = gate
        self._one_at_a_time = asyncio.Lock()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        fields = request.headers
        try:
            self._gate.check(
                fields.getall("Host", []), fields.getall("Origin", []), fields.get("Sec-Fetch-Site")
            )
        except PairproxyError as error:
            return _answer({"error": error.sentence}, error.status)
        if request.method not in ("GET", "HEAD"):
            return _answer({"error": "This port only answers GET."}, 405)
        try:
            return await self._read(request)
        except RequestError as error:
            return _answer({"error": error.sentence}, error.status)

    async def _read(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.path.split("/"):
            case ["", "status"]:
                return _answer(await self._reckoned(self._view.status()))
            case ["", "report"]:
                run, recording = request.query.get("run"), request.query.get("recording") == "true"
                report = await self._reckoned(self._view.report(run, with_recording=recording))
                if report.run is None and run is not None:
                    raise NotRemembered(
                        "There is no run of this name in the daemon's memory."
                        " `pairproxy report` without --run shows the last one."
                    )
                return _answer(report)
            case ["", "requests", *wanted]:
                return _answer(self._view.explanation("/".join(wanted)))
            case ["", "health"]:
                return _answer({"status": "ok"})
            case ["", "ready"]:
                ready = self._view.is_ready()
                return _answer({"ready": ready}, 200 if ready else 503)
        raise NotRemembered("There is /status, /report, /requests/ID, /health and /ready here.")

    async def _reckoned(self, make: Callable[[], T]) -> T:
        async with self._one_at_a_time:
            return await asyncio.to_thread(make)


def _answer(value: object, status: int = 200) -> web.Response:
    return web.Response(
        body=_encode(value),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )

"""The admin port. Nothing can be changed over it yet. Host and Origin are checked as on a client port."""

from collections.abc import Callable

import msgspec
from aiohttp import web

from pairproxy.api.schema import Report, Status
from pairproxy.config import Limits
from pairproxy.core.errors import PairproxyError
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.server import Port

_encode = msgspec.json.Encoder().encode


class AdminPort(Port):
    """GET /status, /report[?run=NAME], /health, /ready."""

    def __init__(
        self,
        status: Callable[[], Status],
        report: Callable[[str | None], Report],
        is_ready: Callable[[], bool],
        limits: Limits,
        gate: Gate,
    ) -> None:
        super().__init__(self._handle, limits)
        self._status = status
        self._report = report
        self._is_ready = is_ready
        self._gate = gate

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
        return self._read(request)

    def _read(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.path:
            case "/status":
                return _answer(self._status())
            case "/report":
                return self._reported(request.query.get("run"))
            case "/health":
                return _answer({"status": "ok"})
            case "/ready":
                ready = self._is_ready()
                return _answer({"ready": ready}, 200 if ready else 503)
        return _answer({"error": "There is /status, /report, /health and /ready here."}, 404)

    def _reported(self, run: str | None) -> web.StreamResponse:
        report = self._report(run)
        if report.run is None and run is not None:
            return _answer({"error": "There is no run of this name in the daemon's memory."}, 404)
        return _answer(report)


def _answer(value: object, status: int = 200) -> web.Response:
    return web.Response(
        body=_encode(value),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )

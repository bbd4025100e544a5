"""The admin port. Host and Origin are checked as on a client port.

Everybody on this machine may look. To change something one shows the token in daemon.json, which only the
owner of the home directory can read: loopback is no boundary between the users of a machine.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar

import msgspec

from pairproxy.admin.live import STALL_S
from pairproxy.api.schema import Explanation, Report, Status
from pairproxy.config import Limits
from pairproxy.core.errors import BodyTooLarge, NotRemembered, PairproxyError
from pairproxy.descriptors import LOOKING
from pairproxy.proxy.body import read_body
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.lines import tell_lines
from pairproxy.proxy.request import HttpRequest
from pairproxy.proxy.server import PagePort
from pairproxy.responses import Asked, Response, StreamResponse

T = TypeVar("T")

Change = Callable[[bytes], Awaitable[object]]
"""Does what a POST asks for: takes its body, returns the answer, or a proxy.lines.Telling for one in lines.

Raises PairproxyError."""
Page = Callable[[Asked], Awaitable[StreamResponse]]
"""Answers GET and HEAD of a path of its own. Raises PairproxyError."""
CONNECTIONS = 64  # at work at once, of all who look: sixteen watch, and a page asks for six things at a time
REST = 1.0  # times as long as a report took no other is begun: half of the interpreter is for replies
CHANGE_BYTES = 64 * 1024  # body of a POST: a few names and numbers

_encode = msgspec.json.Encoder().encode


class Facts(Protocol):
    """What the port tells. What takes long to reckon is answered with a function for another thread."""

    def status(self) -> Callable[[], Status]:
        """GET /status."""

    def report(
        self, name: str | None, *, with_recording: bool = False, is_watched: bool = False
    ) -> Callable[[], Report]:
        """GET /report. ``is_watched``: who asks watches, and the last report that was made will do."""

    def explanation(self, request: str) -> Explanation:
        """GET /requests/ID. Raises RequestError."""

    def is_ready(self) -> bool:
        """GET /ready."""


class AdminPort(PagePort):
    """GET /status, /report[?run=NAME][&recording=true][&watched=true], /requests/ID, /health, /ready.

    POST: see ``changes``.

    What else is there to look at stands in ``pages``. A report can take parts of a second to reckon: that is
    done in a thread, one at a time, and not all the time. Who takes no answer loses it: any user of this
    machine may ask, and must not cost its requests their descriptors.
    """

    def __init__(
        self,
        view: Facts,
        limits: Limits,
        gate: Gate,
        token: str,
        changes: Mapping[str, Change],
        pages: Mapping[str, Page] = MappingProxyType({}),
        past: Callable[[str], Explanation | None] = lambda _: None,
    ) -> None:
        """``changes`` is what can be changed: path -> who does it, for those who show ``token``.

        ``pages``: path -> who answers it. ``past`` explains, in a thread, what memory no longer holds.
        """
        super().__init__(self._answer, limits, most=min(limits.connections, CONNECTIONS), kept=LOOKING)
        self._view = view
        self._gate = gate
        self._limits = msgspec.structs.replace(limits, body_bytes=CHANGE_BYTES)
        self._token = token.encode()
        self._changes = changes
        self._pages = pages
        self._past = past
        self._changing = asyncio.Lock()
        self._one_status, self._one_report = asyncio.Lock(), asyncio.Lock()
        self._rests_until = 0.0  # of the loop's clock

    async def _answer(self, request: HttpRequest) -> StreamResponse:
        response = await self._answered(request)
        if isinstance(response, Response):  # a stream looks after itself
            await _send(response, request)
        return response

    async def _answered(self, request: HttpRequest) -> StreamResponse:
        fields = request.headers
        try:
            self.refuse_a_crowd(request)
        except PairproxyError as error:
            refused = answer({"error": error.sentence}, error.status)
            refused.force_close()
            return refused
        try:
            self._gate.check(fields.getall("Host", []), fields.getall("Origin", []), _site(request))
        except PairproxyError as error:
            return answer({"error": error.sentence}, error.status)
        try:
            if request.method == "POST" and request.path in self._changes:
                return await self._change(request)
            if request.method not in ("GET", "HEAD"):
                return answer({"error": "This port only answers GET here."}, 405)
            page = self._pages.get(request.path)
            return await (self._read(request) if page is None else page(request))
        except PairproxyError as error:
            return answer({"error": error.sentence}, error.status)

    async def _change(self, request: HttpRequest) -> StreamResponse:
        shown = request.headers.getall("Authorization", [])
        is_known = len(shown) == 1 and hmac.compare_digest(
            shown[0].encode(errors="replace"), b"Bearer " + self._token
        )
        if not self._token or not is_known:
            return answer({"error": _REFUSED}, 403)
        try:
            body = await read_body(request, self._limits)
        except BodyTooLarge:
            raise BodyTooLarge(f"A change may have up to {CHANGE_BYTES} bytes. Send less.") from None
        async with self._changing:  # two at a time could each undo a part of the other
            done = await self._changes[request.path](body)
        return await tell_lines(request, done) if callable(done) else answer(done)

    async def _read(self, request: HttpRequest) -> StreamResponse:
        match request.path.split("/"):
            case ["", "status"]:
                async with self._one_status:
                    return answer(await asyncio.to_thread(self._view.status()))
            case ["", "report"]:
                return await self._report(request)
            case ["", "requests", *wanted]:
                return await self._explanation("/".join(wanted))
            case ["", "health"]:
                return answer({"status": "ok"})
            case ["", "ready"]:
                ready = self._view.is_ready()
                return answer({"ready": ready}, 200 if ready else 503)
        told = (path for path in self._pages if not path.startswith("/page"))  # the page's files
        known = ", ".join(["/status", "/report", "/requests/ID", "/health", *told])
        raise NotRemembered(f"There is {known} and /ready here.")

    async def _report(self, request: HttpRequest) -> StreamResponse:
        asked = request.query
        run = asked.get("run")
        is_recorded, is_watched = asked.get("recording") == "true", asked.get("watched") == "true"
        make = self._view.report(run, with_recording=is_recorded, is_watched=is_watched)

        def encoded() -> bytes | None:  # of thousands of requests it is megabytes
            report = make()
            return _encode(report) if report.run is not None or run is None else None

        document = await self._reckoned(encoded)
        if document is None:
            raise NotRemembered(
                "There is no run of this name in the daemon's memory or history."
                " `pairproxy report --all` lists those there are."
            )
        return answer(msgspec.Raw(document))

    async def _explanation(self, request: str) -> StreamResponse:
        try:
            return answer(self._view.explanation(request))
        except NotRemembered as error:
            unknown = error
        found = await self._reckoned(lambda: self._past(request)) if request else None
        if found is None:
            raise unknown
        return answer(found)

    async def _reckoned(self, make: Callable[[], T]) -> T:
        now = asyncio.get_running_loop().time
        async with self._one_report:
            await asyncio.sleep(max(self._rests_until - now(), 0.0))
            began_at = now()
            made = await asyncio.to_thread(make)
            self._rests_until = now() + REST * (now() - began_at)
            return made


async def _send(response: Response, request: HttpRequest) -> None:
    """Send an answer whole. Raises ConnectionError when its client takes nothing of it for STALL_S."""
    await response.prepare(request)
    sending, left = asyncio.ensure_future(response.write_eof()), -1
    try:
        while not (await asyncio.wait({sending}, timeout=STALL_S))[0]:
            before, left = left, request.transport.get_write_buffer_size() if request.transport else 0
            if left == before and request.transport is not None:
                request.transport.abort()  # what was written for it would wait for ever
                raise ConnectionResetError("nobody takes the answer")
        await sending
    finally:
        sending.cancel()


def _site(request: HttpRequest) -> str | None:
    """Whose page asks. A link may lead to our page from anywhere: who followed it sees it, nobody else can.

    Not within a frame, and the site with the link cannot read it (headers of pairproxy.web.serving).
    """
    fields = request.headers
    if request.path == "/" and fields.get("Sec-Fetch-Dest") == "document":
        return None
    return fields.get("Sec-Fetch-Site")


_REFUSED = "Changes need the token in daemon.json of the daemon's home. Use the commands of pairproxy."


def answer(value: object, status: int = 200) -> Response:
    """An answer in JSON; a ``msgspec.Raw`` is sent as it is."""
    return Response(
        body=_encode(value),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )

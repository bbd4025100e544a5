"""GET /runs[?since=SECONDS][&limit=N]: the runs in memory and on disk, the latest first."""

import asyncio
import math
from collections.abc import Awaitable, Callable

import msgspec

from pairproxy.admin.server import Page, answer
from pairproxy.api.runs import Runs, RunSummary
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.errors import BadRequest
from pairproxy.history.keeping import told_by
from pairproxy.responses import Asked, StreamResponse

LIMIT = 100  # runs, if nobody asks for more: some screens
MOST = 20_000  # runs in one answer; about 400 bytes each, and clients take 16 MB

CLOSE_S = 0.001  # of two makespans: of the same run, by the same clock

Look = Callable[[float, int], Awaitable[Runs]]
"""(started at or after, seconds of the epoch; at most so many) -> the runs."""


def runs_page(look: Look, kept: Callable[[], tuple[RunReport, ...]] = lambda: ()) -> Page:
    """Answers with what ``look`` finds. Raises BadRequest for numbers that are none.

    ``kept``: reports that other faces show already; what is kept on disk gets its own some seconds later.
    """

    one_at_a_time = asyncio.Lock()

    async def page(request: Asked) -> StreamResponse:
        since_unix = _number(request, "since", 0.0)
        limit = int(_number(request, "limit", LIMIT))
        async with one_at_a_time:
            found = await look(since_unix, max(min(limit, MOST), 1))
            body = await asyncio.to_thread(_encoded, found, kept())
        return answer(msgspec.Raw(body))

    return page


def _encoded(found: Runs, reports: tuple[RunReport, ...]) -> bytes:
    """In a thread: of thousands of runs it is megabytes."""
    return msgspec.json.encode(
        msgspec.structs.replace(found, runs=tuple(_told(one, reports) for one in found.runs))
    )


def _told(summary: RunSummary, reports: tuple[RunReport, ...]) -> RunSummary:
    """A run with the numbers of its report, if that was made of the same requests."""
    for report in reports if summary.speedup is None else ():
        is_same = (report.run, report.requests) == (summary.run, summary.requests)
        if is_same and abs(report.makespan_s - summary.makespan_s) < CLOSE_S:
            return told_by(summary, report)
    return summary


def _number(request: Asked, name: str, default: float) -> float:
    text = request.query.get(name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadRequest(f"`{name}` must be a number: since is seconds of the epoch, limit a count of runs.")
    return number

"""GET /runs[?since=SECONDS][&limit=N]: the runs in memory and on disk, the latest first."""

import math
from collections.abc import Awaitable, Callable

from aiohttp import web

from pairproxy.admin.server import Page, answer
from pairproxy.api.runs import Runs
from pairproxy.core.errors import BadRequest

LIMIT = 100  # runs, if nobody asks for more: some screens
MOST = 20_000  # runs in one answer; about 400 bytes each, and clients take 16 MB

Look = Callable[[float, int], Awaitable[Runs]]
"""(started at or after, seconds of the epoch; at most so many) -> the runs."""


def runs_page(look: Look) -> Page:
    """Answers with what ``look`` finds. Raises BadRequest for numbers that are none."""

    async def page(request: web.BaseRequest) -> web.StreamResponse:
        since_unix = _number(request, "since", 0.0)
        limit = int(_number(request, "limit", LIMIT))
        return answer(await look(since_unix, max(min(limit, MOST), 1)))

    return page


def _number(request: web.BaseRequest, name: str, default: float) -> float:
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

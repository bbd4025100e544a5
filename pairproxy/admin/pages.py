"""Paths of the admin port that only look: read what is known at once, reckon and encode in a thread."""

import asyncio
from collections.abc import Callable

import msgspec

from pairproxy.admin.server import Page, answer
from pairproxy.responses import Asked, StreamResponse


def reckoned(look: Callable[[], Callable[[], object]]) -> Page:
    """Answers with the document that the function which ``look`` returns makes; one at a time.

    ``look`` is called in the event loop and only copies; what it returns is called in a thread.
    """
    one_at_a_time = asyncio.Lock()

    async def page(_: Asked) -> StreamResponse:
        async with one_at_a_time:
            make = look()
            body = await asyncio.to_thread(lambda: msgspec.json.encode(make()))
        return answer(msgspec.Raw(body))

    return page


def description() -> bytes:
    """GET /openapi.json. Imported when it is asked for: few ask, and it takes a tenth of a second."""
    from pairproxy.api.openapi import encoded

    return encoded()


def kept(make: Callable[[], bytes]) -> Page:
    """Answers with a document that never changes, made when it is first asked for."""
    one_at_a_time = asyncio.Lock()
    body = b""

    async def page(_: Asked) -> StreamResponse:
        nonlocal body
        async with one_at_a_time:
            if not body:
                body = await asyncio.to_thread(make)
        return answer(msgspec.Raw(body))

    return page

"""Taking in a request body: its declared length first, then a deadline."""

import asyncio

from pairproxy.config import Limits
from pairproxy.core.errors import BadRequest, BodyTooLarge, BodyTooSlow, ExpectationFailed
from pairproxy.proxy.content import BrokenFraming, Content
from pairproxy.proxy.leaving import CONTINUE
from pairproxy.proxy.request import HttpRequest


def say_continue(request: HttpRequest) -> None:
    """Answer ``Expect: 100-continue`` when the body is about to be read. Raises ExpectationFailed."""
    expectation = request.headers.get("Expect")
    if expectation is None or request.version < (1, 1):
        return
    if expectation.lower() != "100-continue":
        raise ExpectationFailed("The only expectation known here is 100-continue.")
    if request.transport is not None:
        request.transport.write(CONTINUE)


async def read_body(request: HttpRequest, limits: Limits) -> bytes:
    """The whole body. Raises BodyTooLarge, BodyTooSlow, BadRequest (broken framing).

    The deadline is absolute: ``body_deadline_s``, or the time that the declared length takes at
    ``body_floor_bytes_per_s``. Of a chunked body what has come counts, for nobody knows what will.
    """
    declared = request.content_length
    if declared is not None and declared > limits.body_bytes:
        raise _too_large(limits)
    whole = request.content.whole()
    if whole is not None:  # it came with the head, as small ones do
        if len(whole) > limits.body_bytes:
            raise _too_large(limits)
        return whole
    began_at = asyncio.get_running_loop().time()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout_at(began_at + limits.body_time_s(declared or 0)) as deadline:
            while part := await _part(request.content):
                size += len(part)
                if declared is None:
                    deadline.reschedule(began_at + limits.body_time_s(size))
                if size > limits.body_bytes:
                    raise _too_large(limits)
                parts.append(part)
    except TimeoutError:
        raise BodyTooSlow("The request body did not arrive in time.") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


class Kept:
    """A body that was read, as long as somebody may have to be sent it."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body

    def let_go(self) -> None:
        """Nobody will: its reply has begun, and goes on for minutes where the body may be megabytes."""
        self.body = b""


class BodyStream:
    """A body part by part as it comes, for requests that are passed on unread, whatever their size.

    Raises BadRequest (broken framing), BodyTooSlow when nothing comes for ``body_deadline_s``.
    """

    def __init__(self, request: HttpRequest, limits: Limits) -> None:
        self._content = request.content
        self._patience_s = limits.body_deadline_s

    def __aiter__(self) -> "BodyStream":
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(self._patience_s):
                part = await _part(self._content)
        except TimeoutError:
            raise BodyTooSlow("The request body stopped coming.") from None
        if not part:
            raise StopAsyncIteration
        return part


class Once:
    """A whole body as a stream of one part: so a chunked request stays chunked."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __aiter__(self) -> "Once":
        return self

    async def __anext__(self) -> bytes:
        body, self._body = self._body, b""
        if not body:
            raise StopAsyncIteration
        return body


async def _part(content: Content) -> bytes:
    """What came of a body; b"" at its end."""
    try:
        return await content.readany()
    except BrokenFraming:
        raise BadRequest("The request body is not framed as its headers say.") from None


def _too_large(limits: Limits) -> BodyTooLarge:
    return BodyTooLarge(
        f"The request body is larger than {limits.body_bytes // 2**20} MiB. "
        "Raise limits.body_bytes if this is meant."
    )

"""A reply that goes on at another node when its node is lost: one reply to its client, whoever writes it.

Only of requests whose rest another node can be asked for (core.dialects.continuing), and only while
``routing.continuation`` is on. Its records pass as they are, but whole: each chunk of what the client gets is
made here, so that what comes after a loss can follow it.
"""

import logging
from collections.abc import Callable

from pairproxy.attempt import Attempt
from pairproxy.core.dialects.continuing import continuable
from pairproxy.core.dialects.meter import Meter
from pairproxy.core.dialects.routes import path_of
from pairproxy.core.dialects.splicing import Splicer
from pairproxy.core.errors import BrokenReply, ReplyTruncated
from pairproxy.core.models import Dialect, Outcome, Request
from pairproxy.proxy import headers
from pairproxy.proxy.cors import Lines
from pairproxy.proxy.downstream import Downstream
from pairproxy.proxy.forward import DECLINED, busy, relay
from pairproxy.security.identity import short_id
from pairproxy.upstreams import FunctionSink, Reply

_log = logging.getLogger(__name__)

_KINDS = {Dialect.OLLAMA: "application/x-ndjson", Dialect.OPENAI: "text/event-stream"}
_LAST_CHUNK = b"0\r\n\r\n"


class Continuation:
    """The reply to one request, over all of its attempts."""

    def __init__(self, splicer: Splicer, now: Callable[[], float]) -> None:
        self._splicer = splicer
        self._now = now
        self._has_begun = False
        self._is_off = False
        self._has_error = False  # the last part ended with an error of its engine

    def target(self, target: str) -> str:
        """Where the next attempt asks; ``target`` is the client's."""
        is_other = self._splicer.is_begun and self._splicer.rest_path != path_of(target)
        return self._splicer.rest_path if is_other else target

    def body(self, body: bytes) -> bytes:
        """What the next attempt asks; ``body`` is the client's."""
        return self._splicer.rest() if self._splicer.is_begun else body

    async def relay(
        self,
        reply: Reply,
        attempt: Attempt,
        downstream: Downstream,
        is_peer: bool,
        shown: Lines,
    ) -> None:
        """Pass one attempt's reply on: all of it, or the rest of what the client has (forward.relay).

        Raises what forward.relay does; UpstreamBusy or BrokenReply for a reply that does not go on.
        """
        if self._has_begun:
            _check(reply, attempt.request)
            _log.info("request %s goes on at %s", attempt.id.request, short_id(attempt.place.node))
            self._splicer.go_on(self._now())
        elif self._is_off or not _can_go_on(reply, attempt.request):
            self._is_off = True
            return await relay(reply, attempt, downstream, is_peer, shown)
        else:
            downstream.begin(reply, is_peer, shown)
            downstream.is_framed_here = True
        self._has_begun = True
        meter = Meter(attempt.request.dialect, True, reply.status)
        attempt.written = meter.written
        attempt.first_byte()
        return await self._splice(reply, attempt, downstream, meter)

    async def _splice(self, reply: Reply, attempt: Attempt, downstream: Downstream, meter: Meter) -> None:
        splicer = self._splicer
        attempt.delivered = lambda: splicer.delivered
        attempt.said_all = lambda: meter.usage() if meter.outcome(is_complete=True) is Outcome.DONE else None

        def take(part: bytes) -> None:
            meter.feed(part)
            _write(downstream, splicer.feed(part, self._now()))

        try:
            await reply.relay(FunctionSink(_unframed, take, downstream.drain, downstream.buffered))
        except ReplyTruncated:
            if not splicer.is_complete:
                raise
        outcome = meter.outcome(is_complete=True)
        self._has_error = outcome is Outcome.ERROR and splicer.is_begun
        is_cut = outcome is Outcome.TRUNCATED and not splicer.is_reason_said
        if (self._has_error or is_cut) and splicer.delivered is not None:
            raise ReplyTruncated("The node ended its reply in the middle. Send the request again.")
        self._end(downstream)
        attempt.finish(outcome, meter.usage())

    def end_with_error(self, downstream: Downstream) -> bool:
        """End with the engine's own error, if that is how the last part ended and nobody goes on."""
        if self._has_error:
            self._end(downstream)
        return self._has_error

    def _end(self, downstream: Downstream) -> None:
        _write(downstream, self._splicer.end(self._now()))
        downstream.write(_LAST_CHUNK)


def continuation_of(asked: Request, body: bytes, now: Callable[[], float]) -> Continuation | None:
    """How the reply to a client's request may go on; None: it ends where its node is lost.

    Takes milliseconds for each megabyte of ``body``, of which there are few (continuing.BODY_BYTES).
    """
    if (
        not asked.is_streaming
        or asked.stays is not None
        or asked.is_load
        or asked.coding not in ("", "identity")
    ):
        return None
    found = continuable(asked.path, body)
    return None if found is None else Continuation(Splicer(found, now()), now)


def _can_go_on(reply: Reply, request: Request) -> bool:
    kind = headers.first(reply.headers, "Content-Type") or ""
    return (
        reply.status == 200
        and reply.framing == "chunked"
        and kind.lower().startswith(_KINDS.get(request.dialect, "none"))
        and not headers.first(reply.headers, "Content-Encoding")
    )


def _check(reply: Reply, request: Request) -> None:
    """Raise for a reply that is not the rest of one, before a byte of it was used."""
    if reply.status in DECLINED:
        raise busy(reply)
    if not _can_go_on(reply, request):
        raise BrokenReply("The node did not go on with the reply.")


def _write(downstream: Downstream, data: bytes) -> None:
    if data:
        downstream.write(b"%x\r\n%b\r\n" % (len(data), data))


def _unframed(data: bytes) -> None:
    """The upstream's own framing ends here."""

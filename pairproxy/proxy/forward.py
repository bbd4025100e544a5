"""One attempt: the request out, the reply back chunk by chunk, unchanged, while a meter looks on."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from pairproxy.attempt import Attempt
from pairproxy.config import Limits
from pairproxy.core.dialects.meter import Meter
from pairproxy.core.dialects.rename import renamed
from pairproxy.core.errors import (
    BadRequest,
    BrokenReply,
    NotServed,
    NotTrusted,
    PairproxyError,
    SlotsTaken,
    Unreachable,
    UpstreamBusy,
)
from pairproxy.core.models import NodeId, Outcome, Place
from pairproxy.proxy import headers
from pairproxy.proxy.cors import Lines
from pairproxy.proxy.downstream import Downstream
from pairproxy.proxy.watching import End, Silence
from pairproxy.upstreams import Outgoing, Reply, Sink, Upstream

DECLINED = frozenset({429, 503})
"""The engine is full, or still loads: it did not begin, and is asked again later."""
BETTER_ELSEWHERE = frozenset({404, 502, 504})
"""Answers that another node may better: the model is gone, or something behind the engine is broken."""
NOT_THERE = frozenset({"BodyTooLarge", "BadRequest"})
"""Refusals of a peer that say nothing of it, only of the request."""
FULL = frozenset({"QueueFull", "UpstreamBusy"})
"""Refusals of a peer that mean the same as DECLINED."""
_PEER_TYPES = ("application/json", "application/x-ndjson", "text/event-stream", "text/plain")

REFUSAL_BYTES = Limits().state_document_bytes  # of the state document that a refusal carries
REFUSAL_S = 1.0  # for it to come after its head, which is one write; a refusal is one without it, too

HearRefusal = Callable[[NodeId, bytes], None]
"""Takes in the state document of a peer that refused."""
Relay = Callable[[Reply, Attempt, Downstream, bool, Lines], Awaitable[None]]
"""Passes the reply of an attempt on: (reply, attempt, downstream, is it a peer's, headers of ours)."""
SENT = Outgoing("", "")
"""Stands for a request that was sent: its body may be megabytes, and the reply takes minutes."""

UpstreamOf = Callable[[Place], Upstream]
"""Where a place is reached. Raises Unreachable when it is gone."""


@dataclass(slots=True)
class Route:
    """How this daemon reaches places: its own engines directly, the others through their daemons."""

    upstream: UpstreamOf
    is_peer: Callable[[Place], bool]
    shows_headers: bool = False  # debug.headers; like the limits it may change while requests run
    hear_refusal: HearRefusal = lambda node, body: None
    is_up: Callable[[Place], bool] = lambda place: True  # whether its engine answers its node's questions
    is_lost: Callable[[Place], bool] = lambda place: False  # whether its node is not heard
    limits: Limits = field(default_factory=Limits)


async def forward(
    attempt: Attempt,
    route: Route,
    outgoing: Outgoing,
    downstream: Downstream,
    relayed: "Relay | None" = None,
) -> None:
    """Carry out an attempt; its end is stamped when this returns. ``relayed`` passes its reply on (relay).

    Raises UpstreamError or SlotsTaken before the first body byte (the dispatcher may try another node),
    ReplyTruncated after it (``downstream`` has to be broken off).
    """
    is_peer = route.is_peer(attempt.place)
    upstream = route.upstream(attempt.place)
    attempt.is_sent = True
    try:
        reply = await upstream.send(outgoing)
    except (Unreachable, NotTrusted, BadRequest):
        attempt.is_sent = False
        raise
    outgoing = SENT
    try:
        if is_peer and _is_taken(reply):
            await _read_refusal(reply, attempt.place.node, route.hear_refusal)
        _check(reply, attempt, is_peer)
        shown = _shown(attempt) if route.shows_headers else ()
        reply.most_bytes = route.limits.reply_bytes
        pass_on = (relayed or relay)(reply, attempt, downstream, is_peer, shown)
        if attempt.request.is_streaming:  # who waits for a whole reply waits as long as it takes
            with _silence(reply, attempt, route, downstream) as watch:
                attempt.goes_on = watch.goes_on
                await pass_on
        else:
            await pass_on
    except BaseException:
        reply.abandon()
        raise


def body_for(attempt: Attempt, body: bytes) -> bytes:
    """The body as the place's own engine reads it: with the name by which that engine knows the model.

    Only where a person mapped it to another name (engines.aliases); every other body goes as it came.
    """
    called = attempt.decision.called
    return body if called is None else renamed(body, called) or body


async def hand_back(reply: Reply, downstream: Downstream, *, is_from_peer: bool = False) -> None:
    """Give a client a reply that nobody meters. Raises ReplyTruncated."""
    try:
        downstream.begin(reply, is_from_peer, waits_for_body=True)
        await reply.relay(downstream)
    finally:
        reply.abandon()


async def relay(reply: Reply, attempt: Attempt, downstream: Downstream, is_peer: bool, shown: Lines) -> None:
    """Pass a reply on as it comes, with ``shown`` as headers of ours. Raises what Reply.relay raises."""
    request = attempt.request
    meter = Meter(request.dialect, request.is_streaming, reply.status)
    attempt.written = meter.written
    downstream.begin(reply, is_peer, shown, waits_for_body=True)
    if request.is_streaming:
        attempt.said_all = lambda: meter.usage() if meter.outcome(is_complete=True) is Outcome.DONE else None
    end = End(reply, downstream, is_peer=is_peer)
    downstream.meter = meter
    sink: Sink = end if end.is_held else downstream
    begun = partial(attempt.first_byte, is_error=reply.status >= 400, is_whole=reply.is_complete)
    await reply.relay(sink, begun)
    outcome = meter.outcome(is_complete=True)
    end.judge(outcome)
    attempt.finish(outcome, meter.usage())


def _silence(reply: Reply, attempt: Attempt, route: Route, downstream: Downstream) -> Silence:
    """Who is streamed to is told when nothing more will come."""
    place = attempt.place
    quiet_s = attempt.quiet_s if route.is_peer(place) else math.inf
    up, lost = partial(route.is_up, place), partial(route.is_lost, place)
    return Silence(reply, downstream.buffered, route.limits, quiet_s, up, lost)


def _shown(attempt: Attempt) -> tuple[tuple[str, str], ...]:
    return (
        (headers.NODE, attempt.place.node),
        (headers.REQUEST, attempt.id.request),
        (headers.ATTEMPTS, str(attempt.id.number)),
        (headers.QUEUE, f"{attempt.queued_s:.3f}"),
    )


def _check(reply: Reply, attempt: Attempt, is_peer: bool) -> None:
    """Raise what lets another node answer, while nothing was sent to the client yet."""
    if is_peer:
        _check_refusal(reply, attempt.is_last_resort)
    status = reply.status
    if status in DECLINED and attempt.request.origin is None:  # a guest's origin waits by itself
        attempt.is_sent = False
        raise busy(reply)
    if is_peer:
        _check_peer(reply)
    if status in BETTER_ELSEWHERE and not attempt.is_last_resort:
        gone, broken = "The node no longer has the model.", "What stands before the engine is broken."
        raise BrokenReply(gone if status == 404 else broken)


def _check_refusal(reply: Reply, is_last_resort: bool) -> None:
    """What a peer itself says to a request; the last one that was asked may say that it is too large."""
    if _is_taken(reply):
        raise SlotsTaken("The node's slot went to somebody else.")
    reason = headers.first(reply.headers, headers.REFUSED)
    if reason in FULL:
        raise busy(reply)
    if (reason in NOT_THERE or reply.status == 413) and not is_last_resort:
        raise NotServed("The node does not take this request.")
    if reason is not None and reason not in NOT_THERE:
        raise BrokenReply("The node could not serve the request.")


def busy(reply: Reply) -> UpstreamBusy:
    """A reply that says "not now", with when to ask again if it says so in seconds."""
    later = (headers.first(reply.headers, "Retry-After") or "").strip()
    is_known = later.isdecimal() and len(later) <= 9
    return UpstreamBusy("The engine is full.", retry_after_s=int(later) if is_known else None)


def _is_taken(reply: Reply) -> bool:
    return headers.first(reply.headers, headers.REFUSED) in ("SlotsTaken", "Draining")


async def _read_refusal(reply: Reply, node: NodeId, hear: HearRefusal) -> None:
    """Plan again with what is true now, not with what was believed when the request was sent."""
    with suppress(PairproxyError, TimeoutError):
        async with asyncio.timeout(REFUSAL_S):
            hear(node, await reply.read(REFUSAL_BYTES))


def _check_peer(reply: Reply) -> None:
    if 300 <= reply.status < 400:
        raise BrokenReply("The node answered with a redirect.")
    kind = headers.first(reply.headers, "Content-Type") or ""
    if not kind.lower().startswith(_PEER_TYPES) or headers.first(reply.headers, "Content-Encoding"):
        raise BrokenReply("The node answered with something else than a reply.")

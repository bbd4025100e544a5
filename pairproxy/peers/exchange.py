"""State documents, both ways: each node streams its own to every peer that asks, one line a document.

The stream is the heartbeat. It is pushed on change (coalesced) and every interval; a reader that hears
nothing for ``node_lost_s`` takes the node for gone, whatever mDNS says.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable

import msgspec
from aiohttp import web

from pairproxy.core.commands import Command
from pairproxy.core.documents import StateDocument
from pairproxy.core.events import CatalogueReported, Event, NodeReported, TimePassed
from pairproxy.core.models import NodeId
from pairproxy.core.scheduler import PROTOCOL, Scheduler
from pairproxy.interfaces import STATE_PATH
from pairproxy.upstreams import Outgoing, Upstream

COALESCE_S = 0.05  # a burst of events is one document
JITTER = 0.1  # so that nodes do not publish in step

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StateDocument).decode


class Publisher:
    """Writes this node's state document for each reader, anew whenever something changed."""

    def __init__(self, scheduler: Scheduler, name: str, now: Callable[[], float], interval_s: float) -> None:
        self._scheduler = scheduler
        self._name = name
        self._now = now
        self._interval_s = interval_s
        self._epoch = uuid.uuid4().hex
        self._sequence = 0
        self._readers: set[asyncio.Event] = set()

    def heard(self, event: Event, commands: list[Command]) -> None:
        """A dispatcher's listener: every event but news from others may have changed the document."""
        if commands or not isinstance(event, NodeReported | CatalogueReported | TimePassed):
            for changed in self._readers:
                changed.set()

    def document_for(self, reader: NodeId) -> StateDocument:
        """The document as ``reader`` may see it, with the next sequence number."""
        self._sequence += 1
        return self._scheduler.document_for(reader, self._epoch, self._sequence, self._name, self._now())

    async def stream(self, request: web.BaseRequest, reader: NodeId) -> web.StreamResponse:
        """Answer a peer's subscription until it leaves."""
        response = web.StreamResponse(
            headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"}
        )
        changed = asyncio.Event()
        self._readers.add(changed)
        try:
            await response.prepare(request)
            while True:
                changed.clear()
                await response.write(_encode(self.document_for(reader)) + b"\n")
                await self._pause(changed)
        finally:
            self._readers.discard(changed)

    async def _pause(self, changed: asyncio.Event) -> None:
        interval_s = self._interval_s * random.uniform(1 - JITTER, 1)
        try:
            async with asyncio.timeout(interval_s):
                await changed.wait()
                await asyncio.sleep(COALESCE_S)
        except TimeoutError:
            pass


class BadDocument(Exception):
    """A peer published something that is not a state document of its own, or of another protocol."""


async def subscribe(
    upstream: Upstream, peer: NodeId, silence_s: float, limit: int
) -> AsyncIterator[StateDocument]:
    """Every document a peer publishes, as it comes.

    Raises UpstreamError when it cannot be reached or the stream ends, TimeoutError after ``silence_s``
    without a document, BadDocument for one that is not this peer's. ``limit`` bounds a document, in bytes.
    """
    async with asyncio.timeout(silence_s):
        reply = await upstream.send(Outgoing("GET", STATE_PATH, ((b"Host", b"pairproxy"),), None))
    try:
        if reply.status != 200:
            raise BadDocument(f"it answered {reply.status}")
        lines = reply.lines(limit)
        while True:
            async with asyncio.timeout(silence_s):
                line = await anext(lines, None)
            if line is None:
                return
            yield _read(line, peer)
    finally:
        reply.abandon()


def _read(line: bytes, peer: NodeId) -> StateDocument:
    try:
        document = _decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        raise BadDocument("its document cannot be read") from None
    if document.node != peer:
        raise BadDocument("its document names another node")
    if document.protocol != PROTOCOL:
        raise BadDocument(
            f"it speaks protocol {document.protocol}, this node {PROTOCOL}; update the older one"
        )
    return document

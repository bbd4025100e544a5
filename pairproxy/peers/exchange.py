"""State documents, both ways: each node streams its own to every peer that asks, one line a document.

The stream is the heartbeat. It is pushed on change (coalesced) and every interval; a reader that hears
nothing for ``node_lost_s`` takes the node for gone, whatever mDNS says. A refusal carries the document too.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any, NamedTuple

import msgspec

from pairproxy import __version__
from pairproxy.clock import wall, worked
from pairproxy.core.commands import Command
from pairproxy.core.documents import PROTOCOL, StateDocument
from pairproxy.core.errors import BrokenReply, PeerNotTrusted, PeerRevoked, ProtocolDiffers, UseNotAllowed
from pairproxy.core.events import CatalogueReported, Event, NodeReported, TimePassed
from pairproxy.core.models import NodeId
from pairproxy.core.prefix_news import ToldTo
from pairproxy.core.scheduler import Scheduler
from pairproxy.interfaces import STATE_PATH
from pairproxy.peers.hearing import READING_S_PER_BYTE, Budget, Newest
from pairproxy.responses import Asked, StreamResponse, http_date, read_http_date
from pairproxy.upstreams import Outgoing, Reply, Upstream

COALESCE_S = 0.05  # a burst of events is one document
PRESSING_S = 0.002  # the same, where its reader waits for it: a slot is wanted of it, or promised it
UNREAD_S = 30.0  # a reader that takes nothing for so long hears nobody either: after 5 s it takes us for gone
JITTER = 0.1  # so that nodes do not publish in step
MOST_STREAMS = 4  # of one peer: two while it changes its path; each is told all that happens here

VERSION_FIELD = "X-Pairproxy-Version"  # with the documents: which pairproxy publishes them
VERSION_CHARACTERS = 32
_REFUSED, _PROTOCOL = b"x-pairproxy-refused", b"x-pairproxy-protocol"
_WHY = {
    PeerRevoked.__name__: "it no longer trusts this machine; pair the two again to use it",
    PeerNotTrusted.__name__: "it does not trust this machine; pair the two again to use it",
    UseNotAllowed.__name__: "its owner does not let this machine use it; ask for that right there",
    ProtocolDiffers.__name__: "it speaks another protocol; update pairproxy on the older of the two machines",
}
"""What the reasons of a refusal mean to the one who is refused (core.errors)."""
_NO_ANSWER = (
    "it closes the connection without an answer; if `pairproxy peers` does not show this machine there, "
    "pair the two again"
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StateDocument).decode


class _Reader:
    """A peer that hears the documents; what it has to be told, and whether that can wait."""

    def __init__(self, node: NodeId) -> None:
        self.node = node
        self.changed = asyncio.Event()
        self.pressing = asyncio.Event()
        self.is_over = False

    def end(self) -> None:
        """The peer has newer streams, enough of them."""
        self.is_over = True
        self.changed.set()
        self.pressing.set()

    async def news(self, interval_s: float) -> None:
        """Return when the next document is due."""
        try:
            async with asyncio.timeout(interval_s):
                await self.changed.wait()
        except TimeoutError:
            return
        try:
            async with asyncio.timeout(COALESCE_S):
                await self.pressing.wait()
        except TimeoutError:
            return
        await asyncio.sleep(PRESSING_S)

    def clear(self) -> None:
        """It is told all that there is, now."""
        self.changed.clear()
        self.pressing.clear()


class Publisher:
    """Writes this node's state document for each reader, anew whenever something changed."""

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        now: Callable[[], float],
        interval_s: float,
        came_from: Callable[[NodeId, str], None] = lambda *_: None,
    ) -> None:
        """``came_from`` takes a peer that subscribes and the host it calls from: there it is to be found."""
        self._came_from = came_from
        self._scheduler = scheduler
        self.name = name
        self._now = now
        self._interval_s = interval_s
        self._epoch = uuid.uuid4().hex
        self._sequence = 0
        self._readers: dict[_Reader, None] = {}  # oldest first

    def heard(self, event: Event, commands: list[Command]) -> None:
        """A dispatcher's listener: every event but news from others may have changed the document."""
        if not self._readers:
            return
        is_changed = commands or not isinstance(event, NodeReported | CatalogueReported | TimePassed)
        pressing = self._scheduler.pressing
        for reader in self._readers:
            if is_changed or reader.node in pressing:
                reader.changed.set()
            if reader.node in pressing:
                reader.pressing.set()

    def document_for(self, reader: NodeId, told: ToldTo | None = None) -> StateDocument:
        """The document as ``reader`` may see it, with the next sequence number.

        With what is new to it of the prefixes, if it is known what it was ``told``.
        """
        self._sequence += 1
        at = self._now()
        versions = None if told is None else told.versions(at)
        document = self._scheduler.document_for(reader, self._epoch, self._sequence, self.name, at, versions)
        if told is not None:
            told.took(document)
        return document

    def is_read_by(self, node: NodeId) -> bool:
        """Whether a peer listens now."""
        return any(reader.node == node for reader in self._readers)

    def refusal(self, reader: NodeId) -> bytes:
        """The document as it goes with a refusal, so that the reader plans with what is true now."""
        return _encode(self.document_for(reader))

    async def stream(self, request: Asked, reader: NodeId) -> StreamResponse:
        """Answer a peer's subscription until it leaves, or has MOST_STREAMS newer ones.

        Raises ConnectionError when it takes nothing for UNREAD_S.
        """
        response = StreamResponse(
            headers={
                "Content-Type": "application/x-ndjson",
                "Cache-Control": "no-store",
                "Date": http_date(),
                VERSION_FIELD: __version__,
            }
        )
        address = request.transport.get_extra_info("peername") if request.transport else None
        if address:
            self._came_from(reader, _host(address))
        heard, told = _Reader(reader), ToldTo()
        self._readers[heard] = None
        for old in [one for one in self._readers if one.node == reader][:-MOST_STREAMS]:
            old.end()
        try:
            await response.prepare(request)
            while not heard.is_over:
                heard.clear()
                try:
                    async with asyncio.timeout(UNREAD_S):
                        await response.write(_encode(self.document_for(reader, told)) + b"\n")
                except TimeoutError:
                    _end(request)
                    raise ConnectionResetError("the peer takes nothing") from None
                await heard.news(self._interval_s * random.uniform(1 - JITTER, 1))
        finally:
            self._readers.pop(heard, None)
        return response


def _end(request: Asked) -> None:
    """End the connection at once: what was written for it would wait for ever."""
    if request.transport is not None:
        request.transport.abort()


def _host(address: tuple[Any, ...]) -> str:
    """The host of a socket's address; with its zone, without which a link-local one leads nowhere."""
    host, zone = str(address[0]), address[3] if len(address) > 3 else 0
    return f"{host}%{zone}" if zone and "%" not in host else host


class BadDocument(Exception):
    """A peer published something that is not a state document of its own, or of another protocol."""


class Unwelcome(BadDocument):
    """A peer is there and gives this node nothing, until a person does something about it."""


class Publishing(NamedTuple):
    """What a peer says beside its documents: its pairproxy ("": it does not), its clock against ours."""

    version: str
    clock_ahead_s: float | None  # to a second or two: HTTP tells whole seconds


async def subscribe(
    upstream: Upstream,
    peer: NodeId,
    silence_s: float,
    limit: int,
    told: Callable[[Publishing], None] = lambda _: None,
) -> AsyncIterator[StateDocument]:
    """Every document a peer publishes, as it comes; first ``told`` hears what it says beside them.

    Raises UpstreamError when it cannot be reached or the stream ends, TimeoutError after ``silence_s``
    without a document, BadDocument for one that is not this peer's, Unwelcome where the peer refuses us.
    ``limit`` bounds a document, in bytes.
    """
    try:
        async with asyncio.timeout(silence_s):
            reply = await upstream.send(Outgoing("GET", STATE_PATH, ((b"Host", b"pairproxy"),), None))
    except BrokenReply:  # TLS 1.3 tells a machine that is not known there no more than this
        raise BrokenReply(_NO_ANSWER) from None
    try:
        if reply.status != 200:
            raise _refused(reply)
        told(_publishing(reply))
        async with aclosing(reply.lines(limit)) as lines, Newest(lines, limit) as newest:
            now = asyncio.get_running_loop().time
            budget = Budget(now())
            while True:
                async with asyncio.timeout(silence_s):
                    line = await newest.next()
                if line is None:
                    return
                began = worked()
                yield read_document(line, peer)  # what the reader does with it counts, too
                pause_s = budget.spend(worked() - began + len(line) * READING_S_PER_BYTE, now())
                await asyncio.sleep(pause_s)  # 0, too: others have their turn between two documents
                if pause_s:
                    newest.skip()
    finally:
        reply.abandon()


def read_document(line: bytes, peer: NodeId) -> StateDocument:
    """A peer's document. Raises BadDocument for anything else, Unwelcome for one of another protocol."""
    try:
        document = _decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        _refuse_other_protocol(line)
        raise BadDocument("its document cannot be read") from None
    if document.node != peer:
        raise BadDocument("its document names another node")
    if document.protocol != PROTOCOL:
        raise Unwelcome(needs_update(document.protocol))
    return document


def needs_update(protocol: int) -> str:
    """Which of the two needs an update, where a peer speaks another protocol."""
    if protocol < PROTOCOL:
        return f"it needs an update of pairproxy: it speaks protocol {protocol}, this machine {PROTOCOL}"
    return f"this machine needs an update of pairproxy: it speaks protocol {PROTOCOL}, that one {protocol}"


class _Protocol(msgspec.Struct):
    """What every version of the document has."""

    protocol: int


def _refuse_other_protocol(line: bytes) -> None:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        protocol = msgspec.json.decode(line, type=_Protocol).protocol
        if protocol != PROTOCOL:
            raise Unwelcome(needs_update(protocol))


def _publishing(reply: Reply) -> Publishing:
    values = {name.lower(): value.decode("latin-1") for name, value in reply.headers}
    version = values.get(VERSION_FIELD.lower().encode(), "")[:VERSION_CHARACTERS]
    try:
        ahead_s = read_http_date(values.get(b"date", "")) + 0.5 - wall()
    except ValueError:
        ahead_s = None
    return Publishing(version if version.isprintable() else "", ahead_s)


def _refused(reply: Reply) -> BadDocument:
    """What a peer means that answers the question for its documents with something else."""
    values = {name.lower(): value.decode("latin-1") for name, value in reply.headers}
    reason, protocol = values.get(_REFUSED, ""), values.get(_PROTOCOL, "")
    if reason == ProtocolDiffers.__name__ and protocol.isdecimal() and int(protocol[:9]) != PROTOCOL:
        return Unwelcome(needs_update(int(protocol[:9])))
    if reason in _WHY:
        return Unwelcome(_WHY[reason])
    return BadDocument(f"it answered {reply.status}")

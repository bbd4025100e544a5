"""One pairing over one connection: frames of at most 4 KiB, 5 s a step, what is stored undone on failure.

Which message comes when is core.handshake's; how it looks on the wire is pairing_frames'.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from pairproxy.core.errors import StoreError
from pairproxy.core.handshake import Host, Joiner
from pairproxy.core.handshake_steps import Failed, Reason, Send, Settled, Steps, Store, Told, Undo
from pairproxy.peers.addresses import joined
from pairproxy.peers.announcement import Reader, dialable
from pairproxy.peers.pairing_frames import STEP_S, end, host_of, linger, read_frame, write_frame
from pairproxy.security.identity import Identity
from pairproxy.security.pairing_cards import Card, CardCase
from pairproxy.security.peer_record import MOST_ADDRESSES, PeerRecord
from pairproxy.security.trust import TrustStore

REPORT_S = 15.0  # for the other's report: its daemon is given 10 s to reach this one
FLOOR_S = 0.05  # each step takes so long at least: SPAKE2's arithmetic is not constant-time (5 to 15 ms)
PREFERRED_PORT = 11635  # beside the peer port and the admin port; for firewalls and for --at


@dataclass(frozen=True, slots=True)
class Granted:
    """What the other machine gets here; see PeerRecord."""

    may_use_me: bool = True
    slots: int | None = None
    models: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """What a side says at the end. ``has_reached``: its daemon the other's; None: it was not to try."""

    has_daemon: bool
    has_reached: bool | None = None


@dataclass(frozen=True, slots=True)
class Me:
    """This machine in a pairing."""

    identity: Identity
    trust: TrustStore
    card: Card
    granted: Granted
    is_on_loopback: bool = False


class Keeping:
    """Stores the peer of one exchange, and puts the old state back if it comes to nothing."""

    def __init__(self, me: Me, certificate_hash: bytes | None = None) -> None:
        """``certificate_hash`` is what the other's certificate must have, where a token was given."""
        self._me = me
        self.case = CardCase(me.identity, me.card, certificate_hash)
        self._before: PeerRecord | None = None
        self.was_forgotten = False
        """Whether the peer had been forgotten here, until now."""
        self.record: PeerRecord | None = None
        """The peer as it was stored."""

    def keep(self, host: str) -> None:
        """Store the accepted peer, met at ``host``. Raises StoreError."""
        if self.case.accepted is None:
            raise StoreError("No card was accepted. Pair again.")
        node, card = self.case.accepted
        trust, granted = self._me.trust, self._me.granted
        trust.load()  # commands beside this one write there too
        self._before = trust.get(node)
        # By its key: whoever makes itself another certificate for it is no other machine.
        self.was_forgotten = any(one.node == node for one in trust.forgotten())
        self.record = trust.add(
            PeerRecord(
                node=node,
                name=card.name,
                certificate=card.certificate,
                may_use_me=granted.may_use_me,
                i_may_use=card.you_may_use_me,
                addresses=_addresses((host, *card.hosts), card.peer_port, self._me.is_on_loopback),
                slots=granted.slots,
                models=granted.models,
            )
        )

    def undo(self) -> None:
        """Put the store back to what it was. Raises StoreError if that cannot be written."""
        if self.record is None:
            return
        node, stored, self.record = self.record.node, self.record, None
        self._me.trust.load()
        if self._me.trust.get(node) != stored:
            return  # a person forgot it meanwhile, or changed its rights: that counts
        if self._before is not None:
            self._me.trust.add(self._before)
        elif self.was_forgotten:
            self._me.trust.forget(node)
        else:
            self._me.trust.withdraw(node)


class Exchange:
    """Runs one side over one connection. ``failed`` says how it ended if it did not end well."""

    def __init__(
        self,
        side: Host | Joiner,
        keeping: Keeping,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        step_s: float = STEP_S,
    ) -> None:
        self._side = side
        self._keeping = keeping
        self._reader, self._writer = streams
        self._step_s = step_s
        self._report: Report | None = None
        self.failed: Failed | None = None
        self.error: StoreError | None = None
        """Why the peer could not be stored here."""

    @property
    def record(self) -> PeerRecord | None:
        """The peer, once both sides have stored the other."""
        return self._keeping.record if self._side.is_settled else None

    @property
    def was_forgotten(self) -> bool:
        """Whether the peer had been forgotten here before."""
        return self._keeping.was_forgotten

    async def run(self, first: bytes | None = None) -> bool:
        """Go on until both sides have stored the other (True) or it failed. ``first``: a message read before.

        Cancelled before that, it undoes what was stored.
        """
        try:
            if isinstance(self._side, Joiner):
                await self._perform(await self._timed(self._side.start))
            while not self._side.is_settled and not self._side.is_over:
                message = await read_frame(self._reader, self._step_s) if first is None else first
                first = None
                if message is None:
                    await self.interrupt(Reason.LOST)
                else:
                    await self._perform(await self._timed(self._side.receive, message))
        finally:
            if not self._side.is_settled:
                await self._undo()
        return self._side.is_settled

    async def interrupt(self, reason: Reason) -> None:
        """End it: the other side sent what is no frame, or nothing in time."""
        await self._perform(self._side.interrupt(reason))

    @property
    def has_accepted(self) -> bool:
        """Whether the other side proved the code and who it is."""
        return self._keeping.case.accepted is not None

    @property
    def problem(self) -> str:
        """Why the other side's card was not accepted."""
        return self._keeping.case.problem

    def is_on(self, writer: asyncio.StreamWriter) -> bool:
        """Whether this is its connection."""
        return writer is self._writer

    async def close(self) -> None:
        """End the connection."""
        if not self._side.is_settled:
            await linger(self._reader, self._writer)
        await end(self._writer)

    async def compare(self, mine: Report) -> Report | None:
        """Tell the other side ``mine`` and return what it says, if it says anything within REPORT_S."""
        self._report = None
        await self._perform(self._side.report(msgspec.json.encode(mine)))
        message = await read_frame(self._reader, REPORT_S)
        if message is not None:
            await self._perform(self._side.receive(message))
        return self._report

    async def _timed(self, act: Callable[..., Steps], *given: bytes) -> Steps:
        steps, _ = await asyncio.gather(asyncio.to_thread(act, *given), asyncio.sleep(FLOOR_S))
        return steps

    async def _perform(self, steps: Steps) -> None:
        for step in steps:
            match step:
                case Send(message):
                    await write_frame(self._writer, message)
                case Store():
                    await self._store()
                case Undo():
                    await self._undo()
                case Failed():
                    self.failed = step
                case Told(report):
                    with contextlib.suppress(msgspec.DecodeError):
                        self._report = msgspec.json.decode(report, type=Report)
                case Settled():
                    pass  # the side knows it

    async def _store(self) -> None:
        peer = self._writer.get_extra_info("peername") or ("",)
        try:
            await _whole(self._keeping.keep, host_of(peer))
        except StoreError as error:
            self.error = error
            await self._perform(self._side.not_stored())
        else:
            await self._perform(self._side.stored())

    async def _undo(self) -> None:
        try:
            await _whole(self._keeping.undo)
        except StoreError as error:
            self.error = error


async def _whole(act: Callable[..., None], *given: str) -> None:
    """Run ``act`` in a thread; when cancelled, wait for its end: what it wrote is then undone."""
    work = asyncio.ensure_future(asyncio.to_thread(act, *given))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def _addresses(hosts: tuple[str, ...], port: int, is_on_loopback: bool) -> tuple[str, ...]:
    """host:port for the record; addresses that lead nowhere, or to this machine, are left out."""
    if not port:
        return ()  # it is not known yet: discovery will tell
    reader = Reader("", 0, allow_loopback=is_on_loopback)
    good = dict.fromkeys(str(found) for host in hosts if (found := dialable(host, port, reader)))
    return tuple(joined(host, port) for host in good)[:MOST_ADDRESSES]

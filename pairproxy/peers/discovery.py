"""mDNS as a source of addresses: announces this node on the LAN and tells where others say they are.

What it tells is a hint for ``peers.link``, never trust and never presence: one forged packet moves or removes
any record (docs/security.md). So a removal of a peer is only a reason to look whether it is there, and an
address seen again is told again. If mDNS does not work, everything else goes on, and ``problem`` says why.

One call of :meth:`Discovery.run` is a chain of lives. A life is one AsyncZeroconf with its sockets; it ends
when the interfaces changed, the machine slept, or REFRESH_S passed, and the next begins at once. That is the
one cure that also helps against an interface that came back under its old address, lost memberships and
records of nodes long gone. A life that is followed by another says no goodbye, so nobody sees it end.
"""

import asyncio
import contextlib
import errno
import logging
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from zeroconf import Error as ZeroconfError
from zeroconf import ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from pairproxy.clock import Clock, MonotonicClock
from pairproxy.core.models import NodeId
from pairproxy.peers import own_addresses
from pairproxy.peers.addresses import MDNS
from pairproxy.peers.announcement import (
    FORGET_S,
    HINT_CHARACTERS,
    SERVICE,
    SPOKEN,
    Announcement,
    Reader,
    Sighting,
    Sightings,
    read,
)

Hint = Callable[[str, str, int, str], None]
"""Takes (first eight characters of a device id, host, port, source)."""

JITTER = 0.1
_ASKING = 16  # records asked for at a time; more come again with the next life
_ASK_MS = 3000
_CLOSE_S = 2.0  # goodbyes take a quarter of a second

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. ``refresh_s`` heals what nobody noticed; ``watch_s`` is also how long a change must stand."""

    watch_s: float = 2.0
    refresh_s: float = 300.0
    retry_s: float = 1.0
    longest_retry_s: float = 15.0  # a network that comes back is used that soon


class Discovery:
    """Announces this node and tells ``hint`` the addresses of others. It does so while run() runs."""

    def __init__(
        self,
        own: NodeId,
        port: int,
        hint: Hint,
        *,
        allow_loopback: bool = False,
        is_paired: Callable[[str], bool] = lambda _: False,
        goodbye: Callable[[str], None] = lambda _: None,
        outdated: Callable[[str, str], None] = lambda *_: None,
        pace: Pace | None = None,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
        snapshot: Callable[[], frozenset[own_addresses.OwnAddress]] = own_addresses.snapshot,
    ) -> None:
        """``port`` is the peer port. With ``allow_loopback`` nothing leaves or enters this machine.

        ``is_paired`` takes the first eight characters of a device id; paired nodes are forgotten last.
        ``goodbye`` takes those of a node whose record was removed, ``outdated`` those of one that speaks
        another protocol, and which.
        """
        self.last_error: str | None = None
        """Why mDNS does not work at present, as a sentence for a person; None while it does."""
        self.lives = 0
        """How many times mDNS was made anew; for tests and for support."""
        self._own_hint, self._port = own[:HINT_CHARACTERS], port
        self._allow_loopback = allow_loopback
        self._pace = pace or Pace()
        self._clock, self._wall, self._snapshot = clock or MonotonicClock(), wall, snapshot
        # New with each start and the same for all lives of it: says nothing about user or machine.
        self._token = secrets.token_hex(8)
        self._hint, self._is_paired, self._goodbye, self._outdated = hint, is_paired, goodbye, outdated
        self._sightings = Sightings(is_paired)
        self._began_at = self._clock.now()
        self._reader = Reader(self._own_hint, port, allow_loopback=allow_loopback)
        self._wake = asyncio.Event()
        self._is_refreshing = False
        self._impostors: set[str] = set()

    def seen(self) -> tuple[Sighting, ...]:
        """Who announced itself lately, paired or not, this node excepted. To be shown, not to be believed."""
        return self._sightings.lately(self._clock.now())

    @property
    def heard(self) -> int:
        """How many other nodes announced themselves lately."""
        return len({sighting.node_hint for sighting in self.seen()})

    @property
    def problem(self) -> str | None:
        """What a person should know: why mDNS does not work, or that it works and nobody is heard."""
        if self.last_error is None and not self.heard and self._clock.now() - self._began_at > FORGET_S:
            return f"mDNS heard no other node for {FORGET_S / 60:g} minutes; known addresses are still tried."
        return self.last_error

    def refresh(self) -> None:
        """Ask everybody anew now, for instance because peers were lost."""
        self._is_refreshing = True
        self._wake.set()

    async def run(self) -> None:
        """Announce and listen until cancelled, which says goodbye first (0.3 s). Never fails."""
        failures = 0
        while True:
            lives = self.lives
            try:
                await self._live()
            except Exception as error:  # noqa: BLE001 - whatever mDNS does, the node goes on without it
                failures = 1 if self.lives > lives else min(failures + 1, 16)
                self._note_failure(error)
                await self._woken_within(
                    min(self._pace.retry_s * 2 ** (failures - 1), self._pace.longest_retry_s)
                )

    def _note_failure(self, error: Exception) -> None:
        sentence = own_addresses.why_mdns_failed(error)
        if sentence != self.last_error:
            _log.warning("%s", sentence)
        self.last_error = sentence

    async def _live(self) -> None:
        self._is_refreshing = False
        here = await self._own_addresses()
        refresh_s = _jittered(self._pace.refresh_s)
        watch = own_addresses.Watch(here, self._clock.now(), self._wall(), refresh_s)
        interfaces: list[str | int] = (
            [own_addresses.LOOPBACK] if self._allow_loopback else own_addresses.listening(here)
        )
        advertised = [own_addresses.LOOPBACK] if self._allow_loopback else own_addresses.advertised(here)
        if not interfaces:
            raise OSError(errno.ENETDOWN, "no network")
        is_last = True
        mdns = AsyncZeroconf(interfaces=interfaces)
        service = self._service(advertised)
        _log.debug("mDNS on %s, announcing %s", interfaces, advertised)
        try:
            async with asyncio.TaskGroup() as group, self._browsing(mdns.zeroconf, group):
                # Names are random, so nobody is asked whether ours is free: found in 0.1 s, not in 1.3 s.
                announcing = await mdns.async_register_service(service, cooperating_responders=True)
                self.lives += 1
                self.last_error = None
                await announcing
                await self._until_stale(watch)
                is_last = False
        finally:
            if not is_last:
                mdns.zeroconf.registry.async_remove(service)  # else closing says goodbye
            with contextlib.suppress(TimeoutError, ZeroconfError, OSError):
                async with asyncio.timeout(_CLOSE_S):
                    await mdns.async_close()

    def _service(self, addresses: list[str]) -> AsyncServiceInfo:
        return AsyncServiceInfo(
            SERVICE,
            f"{self._token}.{SERVICE}",
            port=self._port,
            properties={"id": self._own_hint, "v": SPOKEN},
            server=f"pp-{self._token}.local.",  # not the host's name: two hosts of one name would be mixed up
            parsed_addresses=addresses,
        )

    async def _own_addresses(self) -> frozenset[own_addresses.OwnAddress]:
        """Those at which others can be met; takes note of all."""
        if self._allow_loopback:
            self._reader = Reader(self._own_hint, self._port, frozenset({own_addresses.LOOPBACK}), True)
            return frozenset()
        everywhere = await asyncio.to_thread(self._snapshot)
        self._reader = Reader(self._own_hint, self._port, frozenset(one.address for one in everywhere))
        return own_addresses.usable(everywhere)

    async def _until_stale(self, watch: own_addresses.Watch) -> None:
        """Return when this life should end and another follow."""
        is_stale = False
        while not is_stale:
            await self._woken_within(_jittered(self._pace.watch_s))
            here = await self._own_addresses()
            is_stale = self._is_refreshing or watch.is_stale(here, self._clock.now(), self._wall())

    async def _woken_within(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    @contextlib.asynccontextmanager
    async def _browsing(self, zeroconf: Zeroconf, group: asyncio.TaskGroup) -> AsyncIterator[None]:
        """Look for others while inside; what must be asked for is asked by tasks of ``group``."""
        asking: set[asyncio.Task[None]] = set()

        def on_change(
            zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange
        ) -> None:
            if state_change is ServiceStateChange.Removed:
                self._was_removed(name)
                return
            try:
                service = AsyncServiceInfo(service_type, name)
            except ZeroconfError:
                return  # a name that is none
            if service.load_from_cache(zeroconf):
                self._take(service)
            elif len(asking) < _ASKING:
                task = group.create_task(self._ask(zeroconf, service), name="mdns-ask")
                asking.add(task)
                task.add_done_callback(asking.discard)

        browser = AsyncServiceBrowser(zeroconf, SERVICE, handlers=[on_change])
        try:
            yield
        finally:
            await browser.async_cancel()
            for task in asking:
                task.cancel()

    async def _ask(self, zeroconf: Zeroconf, service: AsyncServiceInfo) -> None:
        try:
            is_known = await service.async_request(zeroconf, _ASK_MS)
        except (ZeroconfError, OSError, ValueError):
            return  # a record that cannot be asked for costs only itself
        if is_known:
            self._take(service)

    def _take(self, service: AsyncServiceInfo) -> None:
        addresses = tuple(service.parsed_scoped_addresses())
        announcement = Announcement(service.name, service.text or b"", service.port, addresses)
        sighting = read(announcement, self._reader)
        if sighting is None:
            return
        if sighting.is_own:
            self._warn_of_impostor(sighting)
            return
        if not sighting.speaks_ours:
            self._outdated(sighting.node_hint, sighting.protocol)
        for host, port in self._sightings.note(sighting, self._clock.now()):
            self._hint(sighting.node_hint, host, port, MDNS)

    def _was_removed(self, name: str) -> None:
        """Anybody can remove anybody: only the heartbeat knows whether a peer is gone. Strangers may go."""
        sighting = self._sightings.of(name)
        if sighting is not None and not self._is_paired(sighting.node_hint):
            self._sightings.forget(sighting)
        if sighting is not None and not self._sightings.is_shown_again(sighting):
            self._goodbye(sighting.node_hint)

    def _warn_of_impostor(self, sighting: Sighting) -> None:
        if self._allow_loopback or len(self._impostors) >= _ASKING:
            return  # on loopback it is an earlier start of this node
        for host, _ in sighting.addresses:
            if host not in self._impostors:
                self._impostors.add(host)
                _log.warning(
                    "Somebody at %s announces this node's id %s; it is ignored. If another machine runs "
                    "from a copy of this home directory, remove key.pem and cert.pem there.",
                    host,
                    self._own_hint,
                )


def _jittered(seconds: float) -> float:
    """A little less, so that nodes do not ask, answer and announce in step."""
    return seconds * random.uniform(1 - JITTER, 1)

"""What this node offers to its peers, and why not: told to the scheduler on each change.

A person's word comes first (drain), then the settings, then the battery, then who uses the machine. Work in
flight is never touched by any of it. Where nothing depends on the machine, nothing of it is read.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from pairproxy.api.offering import DrainAnswer, DrainWish, OfferStatus, until
from pairproxy.config import PeerSettings
from pairproxy.core.documents import Withheld
from pairproxy.core.errors import BadRequest, StoreError
from pairproxy.core.models import NodeId
from pairproxy.guest import drained
from pairproxy.guest.drained import Drained
from pairproxy.guest.presence import Presence, Reading

_log = logging.getLogger(__name__)

LOOK_S = 1.0  # between two readings of the machine's use; half of what it may take to see its owner
BATTERY_S = 5.0  # between two looks at the power: unplugging costs a guest's battery nothing in that time
LONGEST_WAIT_S = 60.0  # for the end of a drain: the person's clock may be set, or stand still in sleep

_PLUG_IN = 'Plug it in, or set peers.on_battery = true and run "pairproxy reload".'
_RESUME = "`pairproxy resume` ends that."
_SHARE = 'Set peers.share to "always" or "idle" in config.toml and run `pairproxy reload` to change that.'


class Looked(Protocol):
    """What is asked of the machine, in a thread (guest.machine)."""

    def on_battery(self) -> bool | None:
        """Whether it lives on its battery; None: it has none."""

    def read(self, settings: PeerSettings, *, is_alone: bool) -> Reading:
        """What it is used for by others than us."""

    def unknown(self) -> tuple[str, ...]:
        """What cannot be read here."""

    def rest(self) -> None:
        """Nobody asks for a while."""


class Offering:
    """Owner of the decision. ``own``: this node."""

    def __init__(
        self,
        own: NodeId,
        settings: PeerSettings,
        home: Path,
        machine: Looked,
        tell: Callable[[str], None],
        at_work: Callable[[], tuple[int, int]],
        now: Callable[[], float],
        wall: Callable[[], float],
        look_s: float = LOOK_S,
        battery_s: float = BATTERY_S,
    ) -> None:
        """``tell`` hears why slots are withheld ("": they are not), on each change.

        ``at_work``: how many requests run on the engines here now, and how many of them are peers'.
        ``now`` only goes on, ``wall`` is seconds of the epoch.
        """
        self._own = own
        self._settings = settings
        self._home = home
        self._machine = machine
        self._tell = tell
        self._at_work = at_work
        self._now = now
        self._wall = wall
        self._look_s = look_s
        self._battery_s = battery_s
        self._drained: Drained | None = None
        self._battery: bool | None = None
        self._battery_due_at = 0.0  # of the loop's clock
        self._presence: Presence | None = None
        self._was_at_work = True
        self._unknown: tuple[str, ...] = ()
        self._withheld, self._why = "", ""
        self._since_unix: float | None = None
        self._changed = asyncio.Event()
        self._keeping = asyncio.Lock()

    # --- what is asked, and wanted ----------------------------------------------------------------------

    def status(self) -> OfferStatus:
        """How it is now."""
        is_drained = self._withheld == Withheld.DRAINED and self._drained is not None
        return OfferStatus(
            share=self._settings.share,
            withheld=self._withheld,
            why=self._why,
            since_unix=self._since_unix,
            until_unix=self._drained.until_unix if is_drained and self._drained else None,
            guests=self._at_work()[1],
            unknown=self._unknown if self._settings.share == "idle" else (),
        )

    def follow_settings(self, settings: PeerSettings) -> None:
        """Go by other settings from now on."""
        self._settings = settings
        if self._presence is not None:
            self._presence.follow(settings)
        self._decide()
        self._changed.set()

    async def wished(self, body: bytes) -> DrainAnswer:
        """Do what a person wants (POST /drain).

        Raises BadRequest, and StoreError where it is done but not after a restart.
        """
        try:
            wish = msgspec.json.decode(body, type=DrainWish)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BadRequest("The body of POST /drain is not what it has to be; see /openapi.json.") from None
        if wish.want != "look":
            await self._set(wish)
        return DrainAnswer(self._own, self.status())

    async def _set(self, wish: DrainWish) -> None:
        if wish.want == "drain":
            now = self._wall()
            since = now if self._drained is None else self._drained.since_unix
            self._drained = Drained(since, None if wish.for_s is None else now + wish.for_s)
        else:
            self._drained = None
        self._decide()  # a person need not wait for the disk
        self._changed.set()
        try:
            await self._keep()
        except StoreError as error:
            raise StoreError(f"It is so now, but will not be after a restart. {error.sentence}") from None

    async def _keep(self) -> None:
        """Write down what holds now; one at a time, so that an old wish never overwrites a newer one."""
        async with self._keeping:
            await asyncio.to_thread(drained.keep, self._home, self._drained)

    # --- its life ---------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Know what holds from the first moment on: before anybody is told what is offered here."""
        self._drained = await asyncio.to_thread(drained.read, self._home, self._wall())
        self._battery = await asyncio.to_thread(self._machine.on_battery)
        self._decide()

    async def run(self) -> None:
        """Look and tell, until cancelled."""
        try:
            while True:
                wait_s = await self._look()
                self._decide()
                self._changed.clear()
                try:
                    async with asyncio.timeout(self._soonest(wait_s)):
                        await self._changed.wait()
                except TimeoutError:
                    pass
        finally:
            self._machine.rest()

    async def _look(self) -> float | None:
        """Read what the decision depends on; seconds until the next time, None: nothing does."""
        await self._end_drain()
        now = asyncio.get_running_loop().time()
        if self._battery is not None and now >= self._battery_due_at:
            self._battery_due_at = now + self._battery_s
            self._battery = await asyncio.to_thread(self._machine.on_battery)
        is_plugged = self._battery is not True or self._settings.on_battery
        if self._drained is None and self._settings.share == "idle" and is_plugged:
            await self._look_at_use()
            return self._look_s
        if self._presence is not None:
            self._presence = None
            await asyncio.to_thread(self._machine.rest)
        return None if self._battery is None else self._battery_s

    async def _look_at_use(self) -> None:
        if self._presence is None:
            self._presence = Presence(self._settings, self._now())
        is_at_work = self._at_work()[0] > 0
        is_alone, self._was_at_work = not (is_at_work or self._was_at_work), is_at_work
        reading = await asyncio.to_thread(self._machine.read, self._settings, is_alone=is_alone)
        if self._presence is not None:
            self._presence.look(reading, self._now())
        self._unknown = self._machine.unknown()

    async def _end_drain(self) -> None:
        """Resume where the time for which somebody wanted it is over."""
        over = self._drained
        if over is None or over.until_unix is None or self._wall() < over.until_unix:
            return
        self._drained = None
        try:
            await self._keep()
        except StoreError as error:  # read again at a start, it is over then as well
            _log.warning("%s", error.sentence)

    def _soonest(self, wait_s: float | None) -> float | None:
        """Seconds until the next look, for a drain that ends as well."""
        if self._drained is None or self._drained.until_unix is None:
            return wait_s
        left_s = max(self._drained.until_unix - self._wall(), 0.0)
        return min(left_s, LONGEST_WAIT_S) if wait_s is None else min(left_s, wait_s)

    # --- the decision -----------------------------------------------------------------------------------

    def _decide(self) -> None:
        withheld, why = self._judged()
        self._why = why
        if withheld == self._withheld:
            return
        before, self._withheld = self._withheld, withheld
        if not withheld or not before:
            self._since_unix = self._wall() if withheld else None
        if withheld == Withheld.DRAINED and self._drained is not None:
            self._since_unix = self._drained.since_unix
        self._tell(withheld)
        if withheld:
            _log.info("peers are offered nothing now: %s", why)
        else:
            _log.info("peers are offered slots again")

    def _judged(self) -> tuple[str, str]:
        """Why nothing is offered, as a word and as a sentence; "" and "": it is."""
        settings = self._settings
        if self._drained is not None:
            ends = until(self._drained.until_unix)
            return Withheld.DRAINED, f"It is drained{ends}: only its own clients are served. {_RESUME}"
        if settings.share == "never":
            return Withheld.NEVER, f'peers.share is "never": only its own clients are served. {_SHARE}'
        if self._battery and not settings.on_battery:
            return Withheld.BATTERY, f"It runs on battery. {_PLUG_IN}"
        if settings.share == "always":
            return "", ""
        if self._presence is None:
            return Withheld.UNKNOWN, self._later("it is not known yet whether somebody uses this machine")
        if self._presence.withheld:
            return self._presence.withheld, self._later(self._presence.why)
        return "", ""

    def _later(self, why: str) -> str:
        quiet = f"{self._settings.idle_after_s:g} s"
        return f"{why[0].upper()}{why[1:]}; slots are offered once it was not used for {quiet}."

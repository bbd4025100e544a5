"""Whether somebody uses this machine, from one reading after another: patient in both directions."""

from dataclasses import dataclass

from pairproxy.config import PeerSettings
from pairproxy.core.documents import Withheld

BACK_S = 2.0  # of use until slots are withdrawn: a page that loads, a backup that looks round, is no reason
UNREAD_S = 30.0  # without a word on the processor, nothing is known of the machine any more
_GB = 1e9


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read at one moment. None: not known, here or just now."""

    processor: float | None = None  # part of all cores that others used since the last reading
    graphics: float | None = None  # the same of the card that they use most
    free_bytes: int | None = None  # memory that programs can have
    input_age_s: float | None = None  # since the last touch of keyboard or mouse


class Presence:
    """One person or none at this machine. Times are seconds of any clock that only goes on."""

    def __init__(self, settings: PeerSettings, at: float) -> None:
        """Nothing is known yet: it counts as used until it was quiet for ``idle_after_s``."""
        self._settings = settings
        self._used_at = at  # the last moment at which it was used for certain, or nothing was known
        self._busy_since: float | None = None
        self._looked_at = at
        self._known_at = at
        self.withheld: str = Withheld.UNKNOWN
        """Why slots are withheld (documents.Withheld); "": the machine is idle."""
        self.why = "it is not known yet whether somebody uses this machine"
        """The same as half a sentence; "" while the machine is idle."""

    def follow(self, settings: PeerSettings) -> None:
        """Go by other thresholds from now on."""
        self._settings = settings

    def look(self, reading: Reading, at: float) -> None:
        """Take in what was read at ``at``; it stands for the time since the last look."""
        settings, since = self._settings, self._looked_at
        self._looked_at = at
        if reading.processor is not None:
            self._known_at = at
        input_at = None if reading.input_age_s is None else at - reading.input_age_s
        if input_at is not None and at - input_at < settings.idle_after_s and input_at >= self._used_at:
            self._used(input_at, Withheld.OWNER, "keyboard or mouse were touched a moment ago")
        found = self._busy(reading)
        if found is None:
            if reading.processor is not None:
                self._busy_since = None
        else:
            self._busy_since = since if self._busy_since is None else self._busy_since
            if at - self._busy_since >= BACK_S:
                self._used(at, *found)
        if at - self._known_at >= UNREAD_S:
            self._used(at, Withheld.UNKNOWN, "the use of its processor cannot be read")
        if at - self._used_at >= settings.idle_after_s:
            self.withheld, self.why = "", ""

    def _busy(self, reading: Reading) -> tuple[str, str] | None:
        """What says that it is used now, and how it is said; None: nothing does."""
        settings = self._settings
        if reading.processor is not None and reading.processor >= settings.idle_cpu:
            return Withheld.OWNER, f"other programs use {reading.processor:.0%} of its processor"
        if reading.graphics is not None and reading.graphics >= settings.idle_gpu:
            return Withheld.OWNER, f"other programs use {reading.graphics:.0%} of its graphics card"
        if reading.free_bytes is not None and reading.free_bytes < settings.idle_memory_bytes:
            wanted, free = settings.idle_memory_bytes / _GB, reading.free_bytes / _GB
            return Withheld.MEMORY, f"{free:.1f} GB of its memory are left, and {wanted:.1f} GB are to be"
        return None

    def _used(self, at: float, withheld: str, why: str) -> None:
        self._used_at = max(self._used_at, at)
        self.withheld, self.why = withheld, why

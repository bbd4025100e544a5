"""How long ago somebody touched keyboard or mouse, where a system tells it cheaply.

Windows: GetLastInputInfo. macOS: HIDIdleTime of the I/O registry. Linux: logind's IdleHint, which a desktop
sets after some minutes without input; some never do, so it is believed once it was seen to say "idle".
"""

import ctypes
import math
import re
import sys
import time
from collections.abc import Callable, Sequence

RUN_EVERY_S = 10.0  # a program is run for it, which costs some 5 ms of a core: 0.05 %
RUN_AGAIN_S = 60.0  # where it said nothing of use: no systemd, no screen
RUN_TIMEOUT_S = 2.0
IOREG = ("ioreg", "-c", "IOHIDSystem", "-r", "-d", "1")
LOGINCTL = ("loginctl", "show-session", "--property=IdleHint", "--property=IdleSinceHintMonotonic")
_WRAP_MS = 2**32  # of GetTickCount: 49.7 days


class _LastInput(ctypes.Structure):
    """LASTINPUTINFO of winuser.h."""

    _fields_ = [("size", ctypes.c_uint), ("at", ctypes.c_uint)]


Run = Callable[[Sequence[str]], str]
"""Runs a program of the system; what it printed, "" where it failed or is missing."""
Ticks = Callable[[], tuple[int, int] | None]
"""Milliseconds since the start of Windows: now, and at the last input; None: they cannot be read."""


class Inputs:
    """Keyboard and mouse of this machine. May block for a moment: for a thread."""

    def __init__(
        self,
        run: Run,
        system: str = sys.platform,
        now: Callable[[], float] = time.monotonic,
        ticks: Ticks | None = None,
    ) -> None:
        self._run = run
        self._system = system
        self._now = now
        self._ticks = ticks or _ticks
        self._next_at = -math.inf
        self._last_at: float | None = None
        self._has_said_idle = False

    def age_s(self) -> float | None:
        """Seconds since the last input, as far as was looked; None: unknown here."""
        now = self._now()
        if self._system == "win32":
            return age_of(self._ticks())
        if now >= self._next_at:
            self._last_at = self._asked(now)
            self._next_at = now + (RUN_AGAIN_S if self._last_at is None else RUN_EVERY_S)
        return None if self._last_at is None else max(now - self._last_at, 0.0)

    def _asked(self, now: float) -> float | None:
        """When the last input was."""
        if self._system == "darwin":
            idle_s = hid_idle_s(self._run(IOREG))
            return None if idle_s is None else now - idle_s
        if self._system.startswith("linux"):
            since = idle_since(self._run(LOGINCTL))
            self._has_said_idle = self._has_said_idle or isinstance(since, float)
            if isinstance(since, float):
                return since
            return now if since is False and self._has_said_idle else None
        return None


def hid_idle_s(printed: str) -> float | None:
    """Seconds since the last input by ``ioreg``, which tells nanoseconds."""
    found = [int(digits) for digits in re.findall(r'"HIDIdleTime"\s*=\s*(\d{1,20})\b', printed)]
    return min(found) / 1e9 if found else None


def idle_since(printed: str) -> float | bool | None:
    """Since when logind takes all sessions for idle, on the system's monotonic clock.

    False: it takes one for active. None: it says neither.
    """
    fields = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    hint, since = fields.get("IdleHint", ""), fields.get("IdleSinceHintMonotonic", "")
    if hint == "no":
        return False
    return int(since) / 1e6 if hint == "yes" and since.isascii() and since.isdigit() else None


def age_of(ticks: tuple[int, int] | None) -> float | None:
    """Seconds between the two, although they begin anew every 49.7 days."""
    return None if ticks is None else ((ticks[0] - ticks[1]) % _WRAP_MS) / 1000


def _ticks() -> tuple[int, int] | None:
    windows = getattr(ctypes, "windll", None)
    told = _LastInput(ctypes.sizeof(_LastInput), 0)
    if windows is None or not windows.user32.GetLastInputInfo(ctypes.byref(told)):
        return None
    return int(windows.kernel32.GetTickCount()) % _WRAP_MS, int(told.at)

"""Whether this machine runs on a battery.

Linux is read here and not by psutil, which takes the battery of a wireless mouse for the machine's.
"""

import contextlib
import sys
from pathlib import Path

SUPPLIES = Path("/sys/class/power_supply")
MOST_SUPPLIES = 32  # looked at; laptops have a handful
FIELD_BYTES = 256


class Power:
    """The machine's supplies of power. May block for a moment: for a thread."""

    def __init__(self, supplies: Path = SUPPLIES, system: str = sys.platform) -> None:
        self._supplies = supplies
        self._system = system

    def on_battery(self) -> bool | None:
        """Whether it lives on its battery now; None: it has none, or does not say."""
        if self._system.startswith("linux"):
            return self._on_battery_of_linux()
        import psutil

        with contextlib.suppress(Exception):  # what a system's own interface may fail with is not listed
            battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
            if battery is not None and battery.power_plugged is not None:
                return not battery.power_plugged
        return None

    def _on_battery_of_linux(self) -> bool | None:
        """Mains (or USB-C) that are online beat all; else a battery of the machine itself that discharges."""
        found: bool | None = None
        try:
            supplies = sorted(self._supplies.iterdir())[:MOST_SUPPLIES]
        except OSError:
            return None
        for one in supplies:
            if _field(one, "scope") == "Device":  # of a mouse, a headset
                continue
            kind = _field(one, "type")
            if kind in ("Mains", "USB") and _field(one, "online") == "1":
                return False
            if kind in ("Battery", "UPS"):
                found = bool(found) or _field(one, "status") == "Discharging"
        return found


def _field(supply: Path, name: str) -> str:
    try:
        with (supply / name).open("rb") as stream:
            return stream.read(FIELD_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""

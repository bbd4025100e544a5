"""On battery or not, by what /sys/class/power_supply of real machines holds."""

from pathlib import Path

import psutil
import pytest

from pairproxy.guest.power import Power

PLUGGED = {
    "AC": {"type": "Mains", "online": "1"},
    "BAT0": {"type": "Battery", "status": "Charging", "present": "1"},
}
UNPLUGGED = {
    "AC": {"type": "Mains", "online": "0"},
    "BAT0": {"type": "Battery", "status": "Discharging", "present": "1"},
}
USB_C = {
    "BAT1": {"type": "Battery", "status": "Not charging"},
    "ucsi-source-psy-USBC000:001": {"type": "USB", "online": "1", "scope": "System"},
}
MOUSE = {"hidpp_battery_0": {"type": "Battery", "scope": "Device", "status": "Discharging", "capacity": "60"}}
UPS = {"ups0": {"type": "UPS", "status": "Discharging"}}
FULL = {"BAT0": {"type": "Battery", "status": "Full"}}


def machine(directory: Path, supplies: dict[str, dict[str, str]]) -> Power:
    """A Linux machine with these supplies."""
    for name, fields in supplies.items():
        (directory / name).mkdir()
        for field, text in fields.items():
            (directory / name / field).write_text(f"{text}\n")
    return Power(directory, "linux")


@pytest.mark.parametrize(
    ("supplies", "answer"),
    [(PLUGGED, False), (UNPLUGGED, True), (USB_C, False), (FULL, False), (UPS, True), ({}, None)],
)
def test_linux_tells_by_its_supplies(
    tmp_path: Path, supplies: dict[str, dict[str, str]], answer: bool | None
) -> None:
    """Mains beat a battery that discharges; a full one is no use of it; without a battery there is none."""
    assert machine(tmp_path, supplies).on_battery() is answer


def test_the_battery_of_a_mouse_is_not_the_machines(tmp_path: Path) -> None:
    """A desktop with a wireless mouse does not run on battery; a laptop with one does, unplugged."""
    assert machine(tmp_path, MOUSE).on_battery() is None
    (tmp_path / "laptop").mkdir()
    assert machine(tmp_path / "laptop", MOUSE | UNPLUGGED).on_battery() is True


def test_a_machine_without_the_directory_has_no_battery(tmp_path: Path) -> None:
    """A container, say."""
    assert Power(tmp_path / "none", "linux").on_battery() is None


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_are_asked_by_psutil(system: str) -> None:
    """What it says on this machine is taken as it is."""
    battery = psutil.sensors_battery()
    expected = None if battery is None or battery.power_plugged is None else not battery.power_plugged
    assert Power(system=system).on_battery() is expected

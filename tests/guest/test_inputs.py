"""Keyboard and mouse, by what the systems' programs print; recorded where we could, else by their manuals."""

from collections.abc import Sequence

import pytest

from pairproxy.guest.inputs import (
    IOREG,
    LOGINCTL,
    RUN_AGAIN_S,
    RUN_EVERY_S,
    Inputs,
    age_of,
    hid_idle_s,
    idle_since,
)

MAC = """+-o IOHIDSystem  <class IOHIDSystem, id 0x10000027b, registered, matched, active, retain 26>
    {
      "IOProviderClass" = "IOResources"
      "HIDScrollCountMaxTimeDeltaBetween" = 600
      "HIDIdleTime" = 4200000000
      "HIDParameters" = {"HIDDefaultParameters"=Yes,"HIDClickTime"=500000000}
    }
"""
IDLE = "IdleHint=yes\nIdleSinceHintMonotonic=70000000\n"
ACTIVE = "IdleHint=no\nIdleSinceHintMonotonic=0\n"


class System:
    """A clock, and programs that print what they are told to."""

    def __init__(self, printed: str = "", system: str = "linux") -> None:
        self.now = 100.0
        self.printed = printed
        self.ran: list[Sequence[str]] = []
        self.inputs = Inputs(self._run, system, lambda: self.now)

    def _run(self, argv: Sequence[str]) -> str:
        self.ran.append(argv)
        return self.printed

    def age_after(self, seconds: float, printed: str) -> float | None:
        """So much later, when the program prints that."""
        self.now += seconds
        self.printed = printed
        return self.inputs.age_s()


def test_macos_tells_nanoseconds() -> None:
    """Of its HID system."""
    assert hid_idle_s(MAC) == pytest.approx(4.2)
    mac = System(MAC, "darwin")
    assert mac.inputs.age_s() == pytest.approx(4.2)
    assert mac.ran == [IOREG]


def test_a_program_is_run_seldom_and_age_goes_on_meanwhile() -> None:
    """It costs more than all else that is read."""
    mac = System(MAC, "darwin")
    assert mac.inputs.age_s() == pytest.approx(4.2)
    assert mac.age_after(RUN_EVERY_S - 1.0, "") == pytest.approx(13.2)
    assert len(mac.ran) == 1
    assert mac.age_after(1.0, MAC) == pytest.approx(4.2)
    assert len(mac.ran) == 2


@pytest.mark.parametrize("printed", ["", "+-o IOHIDSystem", '"HIDIdleTime" = "soon"', '"HIDIdleTime" = -5'])
def test_what_macos_does_not_say_is_unknown(printed: str) -> None:
    """A Mac without a screen, or another print."""
    assert hid_idle_s(printed) is None


def test_logind_is_believed_once_it_has_said_idle() -> None:
    """Many desktops never do: its "no" alone would keep such a machine from ever being offered."""
    linux = System(ACTIVE)
    assert linux.inputs.age_s() is None
    assert linux.ran == [LOGINCTL]
    assert linux.age_after(RUN_EVERY_S, IDLE) is None, "where it told nothing it is asked seldom"
    assert linux.age_after(RUN_AGAIN_S - RUN_EVERY_S, IDLE) == pytest.approx(90.0)
    assert linux.age_after(10.0, ACTIVE) == pytest.approx(0.0)


@pytest.mark.parametrize(
    "printed", ["", "Failed to connect to bus", "IdleHint=yes\n", "IdleHint=yes\nIdleSinceHintMonotonic=x"]
)
def test_what_logind_does_not_say_is_unknown(printed: str) -> None:
    """No systemd, a container."""
    assert idle_since(printed) is None


def test_windows_counts_milliseconds_that_begin_anew() -> None:
    """After 49.7 days; both numbers are of the same clock."""
    assert age_of((5_000, 2_000)) == pytest.approx(3.0)
    assert age_of((1_000, 2**32 - 1_000)) == pytest.approx(2.0)
    windows = Inputs(lambda argv: "", "win32", lambda: 0.0, lambda: (61_000, 1_000))
    assert windows.age_s() == pytest.approx(60.0)


def test_windows_without_a_desktop_is_unknown() -> None:
    """A service has none; and here there is no Windows."""
    assert Inputs(lambda argv: "", "win32", lambda: 0.0).age_s() is None


def test_another_system_is_not_asked() -> None:
    """Nothing is run for it."""
    bsd = System(IDLE, "freebsd14")
    assert bsd.inputs.age_s() is None
    assert bsd.ran == []

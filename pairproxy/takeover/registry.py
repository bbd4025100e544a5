r"""Environment variables where Windows keeps them: HKCU\Environment of the person, and the machine's own.

The only place that touches the registry. Not tried on a real Windows: tested with a registry of the tests'.
"""

import sys
from contextlib import AbstractContextManager
from typing import Any, Protocol

USER = r"Environment"
MACHINE = r"SYSTEM\CurrentControlSet\Control\Session Manager\Environment"
REG_SZ, REG_EXPAND_SZ = 1, 2
_READ, _SET = 0x0001, 0x0002  # KEY_QUERY_VALUE, KEY_SET_VALUE
_HKEY_CURRENT_USER, _HKEY_LOCAL_MACHINE = 0x80000001, 0x80000002
_BROADCAST, _SETTING_CHANGED, _ABORT_IF_HUNG = 0xFFFF, 0x001A, 0x0002
_ANNOUNCE_MS = 1000  # for each window that does not answer


class Winreg(Protocol):
    """What is used of the standard library's winreg, which only Windows has."""

    def OpenKey(  # noqa: N802 its name
        self, key: Any, sub_key: str, reserved: int = 0, access: int = ...
    ) -> AbstractContextManager[Any]:
        """Open a key. Raises OSError."""

    def QueryValueEx(self, key: Any, value_name: str) -> tuple[Any, int]:  # noqa: N802 its name
        """Value and type. Raises FileNotFoundError."""

    def SetValueEx(self, key: Any, value_name: str, reserved: Any, type: int, value: Any) -> None:  # noqa: A002 N802 its name
        """Set it."""

    def DeleteValue(self, key: Any, value: str) -> None:  # noqa: N802 its name
        """Remove it. Raises FileNotFoundError."""


class UserVariables:
    """Those of this person (steps.Variables)."""

    def __init__(self, winreg: Winreg) -> None:
        """``winreg``: the module."""
        self._winreg = winreg

    def get(self, name: str) -> tuple[str, int] | None:
        """Value and type; None if it is not set."""
        return _value(self._winreg, _HKEY_CURRENT_USER, USER, name)

    def set(self, name: str, value: str, kind: int) -> None:
        """Set it for good."""
        with self._winreg.OpenKey(_HKEY_CURRENT_USER, USER, 0, _SET) as key:
            self._winreg.SetValueEx(key, name, 0, kind, value)

    def delete(self, name: str) -> None:
        """Unset it; an absent one is fine."""
        with self._winreg.OpenKey(_HKEY_CURRENT_USER, USER, 0, _SET) as key:
            try:
                self._winreg.DeleteValue(key, name)
            except FileNotFoundError:
                return

    def announce(self) -> None:
        """Tell Explorer and the like to read them anew: what they start later has the new ones."""
        announce()

    def of_machine(self, name: str) -> str | None:
        """The one that an administrator set for every user; a person's own beats it."""
        found = _value(self._winreg, _HKEY_LOCAL_MACHINE, MACHINE, name)
        return None if found is None else found[0]


def user_variables() -> UserVariables | None:
    """Those of this person; None where the system has no registry."""
    if sys.platform == "win32":
        import winreg

        return UserVariables(winreg)
    else:
        return None


def announce() -> None:
    """WM_SETTINGCHANGE to every window; nothing where there are none."""
    if sys.platform == "win32":
        import ctypes

        ctypes.windll.user32.SendMessageTimeoutW(
            _BROADCAST, _SETTING_CHANGED, 0, USER, _ABORT_IF_HUNG, _ANNOUNCE_MS, None
        )


def _value(winreg: Winreg, root: int, path: str, name: str) -> tuple[str, int] | None:
    try:
        with winreg.OpenKey(root, path, 0, _READ) as key:
            value, kind = winreg.QueryValueEx(key, name)
    except OSError:
        return None
    return str(value), kind

"""A registry in a file: what is used of Windows' winreg, for the wrapper around it (takeover/registry.py)."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Values = dict[str, list[Any]]


class FileRegistry:
    """Keys and values in one JSON file; every write is on disk at once, as in the real one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            path.write_text("{}")

    @property
    def told(self) -> dict[str, Values]:
        """All of it: {"2147483649\\Environment": {"NAME": ["value", 1]}}."""
        told: dict[str, Values] = json.loads(self._path.read_text())
        return told

    def make(self, key: int, sub_key: str, values: Values) -> None:
        """Let there be a key."""
        self._path.write_text(json.dumps({**self.told, f"{key}\\{sub_key}": values}))

    @contextlib.contextmanager
    def OpenKey(self, key: Any, sub_key: str, reserved: int = 0, access: int = 0) -> Iterator[str]:  # noqa: N802
        """Open one. Raises FileNotFoundError."""
        name = f"{key}\\{sub_key}"
        if name not in self.told:
            raise FileNotFoundError(2, "The system cannot find the file specified")
        yield name

    def QueryValueEx(self, key: str, value_name: str) -> tuple[Any, int]:  # noqa: N802
        """Read a value. Raises FileNotFoundError."""
        try:
            value, kind = self.told[key][value_name]
        except KeyError:
            raise FileNotFoundError(2, "The system cannot find the file specified") from None
        return value, kind

    def SetValueEx(self, key: str, value_name: str, reserved: Any, type: int, value: Any) -> None:  # noqa: A002 N802
        """Write a value."""
        told = self.told
        told[key][value_name] = [value, type]
        self._path.write_text(json.dumps(told))

    def DeleteValue(self, key: str, value: str) -> None:  # noqa: N802
        """Remove a value. Raises FileNotFoundError."""
        told = self.told
        if value not in told[key]:
            raise FileNotFoundError(2, "The system cannot find the file specified")
        del told[key][value]
        self._path.write_text(json.dumps(told))

"""The settings in force, and what `pairproxy config` prints of those that a daemon would have."""

from typing import Any, Literal

import msgspec


class SettingsInForce(msgspec.Struct, frozen=True):
    """GET /config: every setting that the daemon goes by, secrets hidden (pairproxy.effective)."""

    node: str
    settings: dict[str, Any]


class ShownSetting(msgspec.Struct, frozen=True, omit_defaults=True):
    """One setting. ``differs``: a daemon runs and goes by ``in_force`` until it is told (``remedy``)."""

    key: str
    value: Any
    source: Literal["default", "file", "environment", "flag"]
    variable: str = ""  # of the environment, where it comes from there
    line: int | None = None  # of the file, where it comes from there
    differs: bool = False
    in_force: Any = None
    remedy: Literal["", "reload", "restart"] = ""


class ShownSettings(msgspec.Struct, frozen=True):
    """`pairproxy config show`."""

    file: str  # whether it exists or not
    is_there: bool
    has_daemon: bool
    settings: tuple[ShownSetting, ...]


class ConfigPath(msgspec.Struct, frozen=True):
    """`pairproxy config path`."""

    file: str
    is_there: bool


class Checked(msgspec.Struct, frozen=True):
    """`pairproxy config check`. ``problem``: the sentence about the first fault; "": there is none."""

    file: str
    is_there: bool
    problem: str

"""The daemon as a service of the system: what `pairproxy service` prints with --json."""

from typing import Literal

import msgspec

ManagerName = Literal["systemd-user", "systemd", "launchd", "windows-task"]


class ServiceState(msgspec.Struct, frozen=True):
    """One service of ours, as the system tells it. ``state``: its own word for it."""

    manager: ManagerName
    is_installed: bool
    is_enabled: bool = False  # starts by itself
    is_running: bool = False
    state: str = ""
    starts: str = ""  # when, in words for a person
    file: str = ""  # where the system reads it from
    home: str | None = None  # of its daemon; None: it cannot be told
    pid: int | None = None
    since_unix: float | None = None  # seconds of the epoch, of this life
    restarts: int | None = None  # by the system, after failures; None: it does not count
    says: str = ""  # the daemon's own line
    log: str = ""  # the command, or the file, by which its log is read
    problem: str | None = None  # what is wrong, and what to do


class ServiceStatus(msgspec.Struct, frozen=True):
    """`pairproxy service status`: those that are installed. ``has_daemon``: one of this home answers."""

    services: tuple[ServiceState, ...]
    has_daemon: bool


class ServiceChanged(msgspec.Struct, frozen=True):
    """`pairproxy service install` and `uninstall`: every change in order, a line each, and what came of it.

    ``services``: as in ServiceStatus, afterwards.
    """

    is_dry_run: bool
    changes: tuple[str, ...]
    notes: tuple[str, ...]
    services: tuple[ServiceState, ...]

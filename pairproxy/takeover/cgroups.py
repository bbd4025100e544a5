"""What the cgroup of a process tells: which unit, container or snap started it. Pure."""

import re
from dataclasses import dataclass
from typing import Literal

_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]+\.service")
_USER_MANAGER = re.compile(r"user@(\d+)\.service")
_CONTAINER = re.compile(
    r"(?:docker|libpod|crio|cri-containerd|nerdctl)-(?:conmon-)?([0-9a-f]{12,64})\.scope"
    r"|/(?:docker|lxc|kubepods[^/]*/[^/]+|libpod_parent)/(?:libpod-)?([0-9a-f]{12,64})"
)
_SNAP = re.compile(r"snap\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_.-]+\.(?:service|scope)|snap\.([A-Za-z0-9_-]+)")


@dataclass(frozen=True, slots=True)
class Place:
    """``kind`` is empty where the cgroup tells nothing of use: a log-in session, or no systemd at all."""

    kind: Literal["systemd", "systemd-user", "container", "snap", "terminal", ""]
    unit: str = ""
    uid: int | None = None  # whose user manager it is


def read(text: str, own: str = "") -> Place:
    """Read /proc/PID/cgroup, of either version. ``own``: that of this process: its container is no other."""
    paths = _paths(text)
    container = _first(_CONTAINER, paths)
    if container is not None and container not in own:
        return Place("container", container)
    for path in paths:
        parts = [part for part in path.split("/") if part]
        snap = next((found for part in parts if (found := _SNAP.fullmatch(part))), None)
        if snap is not None:
            return Place("snap", snap[1] or snap[2])
        manager = next((found for part in parts if (found := _USER_MANAGER.fullmatch(part))), None)
        units = [part for part in parts if _UNIT.fullmatch(part) and not _USER_MANAGER.fullmatch(part)]
        if units and not parts[-1].endswith(".scope"):
            return Place(
                "systemd-user" if manager else "systemd", units[-1], int(manager[1]) if manager else None
            )
    return Place("")


def _paths(text: str) -> list[str]:
    """The paths that systemd made: of the one hierarchy, or of its own named one."""
    lines = [line.split(":", 2) for line in text.splitlines()]
    told = [line[2] for line in lines if len(line) == 3]
    named = [line[2] for line in lines if len(line) == 3 and line[1] in ("", "name=systemd")]
    return [path for path in dict.fromkeys((*named, *told)) if path.strip("/")]


def _first(pattern: re.Pattern[str], paths: list[str]) -> str | None:
    for path in paths:
        found = pattern.search(path)
        if found:
            return next(group for group in found.groups() if group)
    return None

"""What steps act through, and how they wait."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pairproxy.core.errors import SetupError
from pairproxy.takeover.running import Runner

WAIT_S = 60.0  # for an engine to answer after a restart; Ollama takes 1 s, with many GPUs to find 20
PAUSE_S = 0.05  # between two looks


class NothingStarts(str):
    """A note of an undone step: what would start the engine again was removed since."""

    __slots__ = ()


class StepFailed(SetupError):
    """A step could not be done or undone; the sentence says why."""


class Stopped(SetupError):
    """A person or the system asked for the end in the middle (Ctrl-C, SIGTERM)."""


class Variables(Protocol):
    """The person's environment variables where the system keeps them (Windows: HKCU\\Environment)."""

    def get(self, name: str) -> tuple[str, int] | None:
        """Value and type; None if it is not set."""

    def set(self, name: str, value: str, kind: int) -> None:
        """Set it for good."""

    def delete(self, name: str) -> None:
        """Unset it; an absent one is fine."""

    def announce(self) -> None:
        """Tell running programs that something changed."""

    def of_machine(self, name: str) -> str | None:
        """The one that an administrator set for every user; None if there is none."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Machine:
    """What steps act through. ``is_stopped``: whether somebody asked for the end; long steps look at it."""

    runner: Runner
    variables: Variables | None = None
    is_stopped: Callable[[], bool] = _never


def until(is_so: Callable[[], bool], timeout_s: float, machine: Machine) -> bool:
    """Wait until it is so; False if it is not in time. Raises Stopped."""
    end = time.monotonic() + timeout_s
    while not is_so():
        if machine.is_stopped():
            raise Stopped("Stopped while waiting.")
        if time.monotonic() >= end:
            return False
        time.sleep(PAUSE_S)
    return True

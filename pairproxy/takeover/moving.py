"""What a mover is: it knows one way of moving an engine, and makes the plan of it.

The movers are listed in one table (plan.py). The first that applies to the owner of the port makes the plan.
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from pairproxy.config import EngineKind
from pairproxy.core.errors import SetupError
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.steps import Step

OwnerKind = Literal[
    "systemd",  # a unit of the system
    "systemd-user",  # a unit of this person
    "container",  # Docker, podman
    "snap",
    "app",  # the Ollama app of macOS or Windows, LM Studio's app
    "homebrew",
    "windows-service",  # NSSM and the like
    "lmstudio",  # LM Studio, however it was started: it is asked through `lms`
    "terminal",  # `ollama serve` by hand
    "other-user",
    "pairproxy",
    "unknown",
]


class CannotTake(SetupError):
    """This engine is not moved by us; the sentence says why, and what a person can do instead."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who listens on a port. ``unit``: of systemd, the label of launchd, the name of a container or snap."""

    kind: OwnerKind
    port: int
    hosts: tuple[str, ...]  # addresses on which it listens: 127.0.0.1, 0.0.0.0, ::
    pid: int | None = None  # None: the system does not tell, it belongs to another user
    name: str = ""  # of the process
    user: str = ""
    unit: str = ""
    executable: str = ""
    command: tuple[str, ...] = ()

    @property
    def is_exposed(self) -> bool:
        """Whether other machines reach it."""
        return any(not (host.startswith("127.") or host == "::1") for host in self.hosts)

    def told(self) -> str:
        """Who it is, in a few words."""
        who = self.name or "a program"
        marks = [f"pid {self.pid}"] if self.pid else []
        marks += [f"user {self.user}"] if self.user else []
        marks += [f"{_UNITS[self.kind]} {self.unit}"] if self.unit and self.kind in _UNITS else []
        return f"{who} ({', '.join(marks)})" if marks else who


_UNITS = {
    "systemd": "system unit",
    "systemd-user": "user unit",
    "container": "container",
    "snap": "snap",
    "homebrew": "service",
    "app": "app",
    "windows-service": "service",
}


@dataclass(frozen=True, slots=True)
class Move:
    """What is wanted: the engine of one kind from one port of loopback to the other."""

    kind: EngineKind
    owner: Owner
    usual: int
    moved: int
    is_now: bool = False  # although requests are in flight


@dataclass(frozen=True, slots=True)
class Plan:
    """How it is done. ``notes`` are said before; ``warnings`` also need a person's yes."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    """What the daemon has to know of the engine as it was, {"cors": "true"} of LM Studio; to the record."""

    @property
    def needs_root(self) -> bool:
        """Whether any step does."""
        return any(step.needs_root for step in self.steps)


class Mover(Protocol):
    """One way of moving an engine."""

    name: str
    """One word, written to the record: systemd, launchd, lms, ..."""

    def applies(self, move: Move) -> bool:
        """Whether this owner is moved this way."""

    def plan(self, move: Move, machine: Machine) -> Plan:
        """The steps; they end with one that waits for the engine at its new port. Changes nothing.

        Raises CannotTake with what a person can do instead.
        """

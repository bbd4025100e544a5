"""What `pairproxy doctor` finds: its JSON (--json, and in a bundle)."""

from typing import Literal

import msgspec

Level = Literal["problem", "warning", "note"]
"""problem: something does not work, or is not safe. warning: it works worse than it could.

note: good to know; it may be meant so.
"""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is not as it should be. ``id`` says of which kind; docs/doctor.md has all of them."""

    id: str
    level: Level
    means: str  # one or two sentences: what it is, what comes of it
    mend: str = ""  # what to do; a command between backticks where there is one; "": nothing needs to be done
    about: str = ""  # the engine, port, file or peer that it is about; "": this machine as a whole


class NotLooked(msgspec.Struct, frozen=True):
    """What could not be looked at, and why."""

    what: str
    why: str


class Measured(msgspec.Struct, frozen=True):
    """What an engine was seen to do (--measure): of ``asked`` requests at once it computed ``at_once``."""

    engine: str
    slots: int  # that pairproxy gives it
    asked: int
    at_once: int


class Diagnosis(msgspec.Struct, frozen=True):
    """`pairproxy doctor --json`. ``findings``: the worst first. ``is_ok``: neither problem nor warning."""

    version: str  # of pairproxy
    node: str  # this one's id; "": it has none yet
    has_daemon: bool
    is_ok: bool
    findings: tuple[Finding, ...]
    looked_at: tuple[str, ...]
    not_looked_at: tuple[NotLooked, ...]
    took_s: float
    measured: tuple[Measured, ...] = ()
    is_compiled: bool = False  # whether the path of a request is, as `pairproxy --version` tells

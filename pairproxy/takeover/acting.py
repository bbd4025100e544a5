"""Looking at every engine that could be moved, and moving or releasing them: what commands and `up` call."""

import time
from collections.abc import Iterable
from pathlib import Path

from pairproxy.api.client import NoDaemon, get_status, read_daemon_file
from pairproxy.api.commands import MovedPort, PlannedPort
from pairproxy.config import Settings
from pairproxy.core.errors import PairproxyError
from pairproxy.takeover import record
from pairproxy.takeover.machine import Machine, Stopped
from pairproxy.takeover.plan import KINDS, Pair, Planned, name_of, pairs, planned, refuse_in_flight
from pairproxy.takeover.record import Taken
from pairproxy.takeover.running import Runner
from pairproxy.takeover.taking import Tell, release, take, undo_order

QUIET_S = 10.0  # for requests in flight to end; most programs let go of idle connections within five seconds
LOOK_S = 0.5
DOES = ("take", "repair", "undo")
"""Of what can be planned, that which take_one() has something to do about."""


def look(
    home: Path, settings: Settings, machine: Machine, kinds: Iterable[str] = KINDS
) -> tuple[Planned, ...]:
    """What a takeover would do now. Changes nothing. Raises ConfigError, StoreError."""
    kept, daemon = record.read(home), daemon_pid(home)
    return tuple(planned(pair, kept, machine, daemon=daemon) for pair in pairs(settings, kinds))


def told(plans: tuple[Planned, ...]) -> tuple[Planned, ...]:
    """Those that a person wants to read of: one that nobody has is named only where there is no other."""
    return tuple(one for one in plans if one.is_there or one.what != "none") or plans


def shown(one: Planned, machine: Machine) -> PlannedPort:
    """A plan for a person, and for --json."""
    steps = one.plan.steps
    if one.what == "undo" and one.taken is not None:
        return _release_shown(one.taken, "undo", one.why, machine.runner)
    return PlannedPort(
        one.pair.kind, one.pair.usual, one.pair.moved, one.what, one.why,
        one.owner.told() if one.owner is not None else None,
        tuple(line for step in steps for line in step.describe(machine.runner)),
        one.plan.warnings, one.plan.notes, any(step.needs_root for step in steps),
    )  # fmt: skip


def releasing(home: Path, machine: Machine, kinds: Iterable[str] = KINDS) -> tuple[PlannedPort, ...]:
    """What a release would do now. Changes nothing. Raises StoreError."""
    kept = [taken for taken in record.read(home).taken if taken.kind in kinds]
    return tuple(_release_shown(taken, "release", _release_why(taken), machine.runner) for taken in kept)


def take_one(
    home: Path,
    one: Planned,
    machine: Machine,
    tell: Tell,
    *,
    is_now: bool = False,
    is_for_one_run: bool = False,
) -> MovedPort:
    """Do what is planned for one engine; what fails is told, with everything put back. Raises NoDaemon."""
    kind = one.pair.kind
    try:
        with record.alone(home):
            if one.what == "undo" and one.taken is not None:
                tell(one.why)
                release(home, one.taken, machine, tell)
                one = planned(one.pair, record.read(home), machine, daemon=daemon_pid(home))
            if one.what not in ("take", "repair"):
                return MovedPort(kind, None if one.what == "none" else one.why)
            if not is_now:
                _until_quiet(home, one, machine, tell)
            moved = take(home, one, machine, tell, is_for_one_run=is_for_one_run)
    except NoDaemon:
        raise
    except PairproxyError as error:
        return MovedPort(kind, error.sentence)
    return MovedPort(kind, None, moved.gap_s, moved.notes)


def release_all(
    home: Path, machine: Machine, tell: Tell, kinds: Iterable[str] = KINDS, *, only_for_one_run: bool = False
) -> tuple[MovedPort, ...]:
    """Put back what was moved; what fails is told and stays in the record. Raises StoreError."""
    done: list[MovedPort] = []
    with record.alone(home):
        for taken in record.read(home).taken:
            if taken.kind not in kinds or (only_for_one_run and not taken.is_for_one_run):
                continue
            try:
                moved = release(home, taken, machine, tell)
                done.append(MovedPort(taken.kind, None, moved.gap_s, moved.notes))
            except PairproxyError as error:
                done.append(MovedPort(taken.kind, error.sentence))
    return tuple(done)


def daemon_pid(home: Path) -> int | None:
    """The process of the daemon of a home; None if none runs."""
    try:
        return read_daemon_file(home).pid
    except NoDaemon:
        return None


def where_engines_are(home: Path) -> tuple[str, ...]:
    """For who ends a daemon: engines that stay at their private ports, and how they come back."""
    return tuple(
        f"{name_of(taken.kind)} stays at its private port {taken.moved}; nobody is on port {taken.usual} "
        "while no daemon runs. `pairproxy release` puts it back."
        for taken in record.read(home).taken
    )


def _until_quiet(home: Path, one: Planned, machine: Machine, tell: Tell) -> None:
    """Wait a little while the engine is being used. Raises CannotTake, Stopped."""
    end, has_told = time.monotonic() + QUIET_S, False
    while True:
        try:
            refuse_in_flight(one, daemon_pid(home), _running(home, one.pair))
            return
        except PairproxyError:
            if time.monotonic() >= end:
                raise
        if not has_told:
            tell(f"{name_of(one.pair.kind)} is being used: waiting {QUIET_S:.0f} s at most for that to end")
            has_told = True
        if machine.is_stopped():
            raise Stopped("Stopped before anything was changed.")
        time.sleep(LOOK_S)


def _running(home: Path, pair: Pair) -> int:
    """How many requests the daemon itself has on that engine."""
    status = get_status(home)
    engines = [engine for node in status.nodes if node.is_self for engine in node.engines]
    return sum(engine.in_flight for engine in engines if engine.kind == pair.kind)


def _release_shown(taken: Taken, what: str, why: str, runner: Runner) -> PlannedPort:
    changes = tuple(
        line for step in undo_order(taken.steps[: taken.begun]) for line in step.describe_undo(runner)
    )
    return PlannedPort(
        taken.kind, taken.usual, taken.moved, what, why, taken.owner, changes, needs_root=taken.needs_root
    )


def _release_why(taken: Taken) -> str:
    return f"It goes from port {taken.moved} back to port {taken.usual}."

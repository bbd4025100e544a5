"""Taking an engine's port, and giving it back: the steps of a plan, each written down before it is done."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from msgspec import structs

from pairproxy.api.client import NoDaemon, ports_wish, read_daemon_file
from pairproxy.api.ports import PortStatus, PortWish
from pairproxy.core.errors import PairproxyError, SetupError, StoreError
from pairproxy.takeover import record
from pairproxy.takeover.asking import HOST, answers, ask
from pairproxy.takeover.gap import Gap
from pairproxy.takeover.machine import PAUSE_S, WAIT_S, Machine, NothingStarts, Stopped
from pairproxy.takeover.owning import owner_of
from pairproxy.takeover.plan import Planned, name_of
from pairproxy.takeover.record import Taken
from pairproxy.takeover.steps import Step
from pairproxy.takeover.stopping import shielded

FRONT_S = 20.0  # from the engine's answer at its private port to the daemon's front; it tries every 5 ms
TEST_S = 20.0  # for the test request; the daemon looks for engines every few seconds
UNDO_TRIES = 3  # of one step of undoing: a service manager that is busy is not, a second later
UNDO_PAUSE_S = 1.0

Tell = Callable[[str], None]


class TakeoverFailed(SetupError):
    """It did not work; the sentence says why, and what state the machine is in now."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What came of it. ``gap_s``: seconds in which nobody was on the port."""

    gap_s: float
    notes: tuple[str, ...] = ()


def take(
    home: Path, planned: Planned, machine: Machine, tell: Tell, *, is_for_one_run: bool = False
) -> Moved:
    """Move an engine, and let the daemon have its port. Call it within record.alone().

    Raises TakeoverFailed; then everything is undone, or the record says what is not. Raises NoDaemon.
    """
    pair = planned.pair
    kept = planned.taken if planned.what == "repair" and planned.taken is not None else None
    taken = kept or Taken(
        pair.kind, pair.usual, pair.moved, planned.mover, planned.owner.told() if planned.owner else "",
        planned.plan.steps, is_for_one_run=is_for_one_run, facts=planned.plan.facts, at_unix=time.time(),
    )  # fmt: skip
    _refuse_without_front(home, taken)
    with Gap(pair.usual) as gap:
        try:
            taken = _do_all(home, taken, machine, tell)
            notes = _until_served(home, taken, machine)
            _keep(home, structs.replace(taken, is_done=True))
            _wish(home, "usual", pair.usual)
        except BaseException as error:
            with shielded():
                _undo_after(home, taken, error, machine, tell)
            raise
    return Moved(gap.total_s, notes)


def release(home: Path, taken: Taken, machine: Machine, tell: Tell) -> Moved:
    """Put an engine back, with or without a daemon. Call it within record.alone().

    Raises TakeoverFailed if something could not be undone: it stays in the record.
    """
    with Gap(taken.usual) as gap, shielded():
        notes = _undo(home, taken, machine, tell)
    return Moved(gap.total_s, tuple(notes))


def redo(taken: Taken, machine: Machine) -> None:
    """Do the steps of a finished takeover again. Raises SetupError of the one that failed; undoes nothing."""
    for step in taken.steps:
        step.do(machine)


def _refuse_without_front(home: Path, taken: Taken) -> None:
    """Let the daemon grab the port, if it has a front for it. Raises TakeoverFailed, NoDaemon."""
    if _front(ports_wish(home, PortWish("look")).ports, taken.usual) is None:
        raise TakeoverFailed(
            f"The running daemon has no client port {taken.usual}, so nobody would answer there. See "
            "engines.listen in config.toml, and restart the daemon."
        )
    ports_wish(home, PortWish("take", taken.usual))


def _do_all(home: Path, taken: Taken, machine: Machine, tell: Tell) -> Taken:
    for number, step in enumerate(taken.steps, start=1):
        if machine.is_stopped():
            raise Stopped("Stopped.")
        taken = structs.replace(taken, begun=max(number, taken.begun), is_done=False)
        _keep(home, taken)
        for line in step.describe(machine.runner)[:1]:
            tell(line)
        step.do(machine)
    return taken


def _until_served(home: Path, taken: Taken, machine: Machine) -> tuple[str, ...]:
    """Wait for the front, and ask through it. Returns what a person should know. Raises TakeoverFailed."""
    daemon, end = read_daemon_file(home), time.monotonic() + FRONT_S
    while True:
        front = _front(ports_wish(home, PortWish("look")).ports, taken.usual)
        if front is not None and front.state == "open":
            break
        _pause(machine, end, f"The daemon did not get port {taken.usual}{_because(front)}")
    end = time.monotonic() + TEST_S
    while not _leads_to_engine(taken, daemon.pid, machine):
        _pause(machine, end, f"A test request through port {taken.usual} did not reach the engine.")
    has_twin = any(":" in host for host in front.hosts)
    return () if has_twin else (f"Port {taken.usual} is open on {HOST} only, not on ::1.",)


def _leads_to_engine(taken: Taken, daemon: int, machine: Machine) -> bool:
    """Whether our daemon answers on the port, with what that engine says."""
    owner = owner_of(taken.usual, machine.runner)
    if owner is None or owner.pid != daemon or not answers(taken.kind, taken.usual):
        return False
    if taken.kind != "ollama":
        return True
    head = ask(taken.usual, "/", method="HEAD")
    through, direct = ask(taken.usual, "/api/version"), ask(taken.moved, "/api/version")
    return head is not None and head.status == 200 and direct is not None and through == direct


def _undo_after(home: Path, tried: Taken, error: BaseException, machine: Machine, tell: Tell) -> None:
    """Undo what was begun, and say what happened; raises TakeoverFailed with both."""
    why = error.sentence if isinstance(error, PairproxyError) else f"{type(error).__name__}."
    taken = record.read(home).of(tried.kind)  # what is on disk counts: the last step begun stands there
    tell("undoing")
    try:
        notes = [] if taken is None else _undo(home, taken, machine, tell)
    except TakeoverFailed as failed:
        raise TakeoverFailed(f"The takeover failed. {why} {failed.sentence}") from error
    _wish(home, "usual", tried.usual)
    if isinstance(error, PairproxyError):
        told = " ".join(["Everything was put back.", *notes])
        raise TakeoverFailed(f"The takeover failed. {why} {told}") from error


def _undo(home: Path, taken: Taken, machine: Machine, tell: Tell) -> list[str]:
    """Undo the steps that were begun; the record goes when all of them are. Raises TakeoverFailed."""
    _wish(home, "give", taken.usual)
    notes: list[str] = []
    failures = []
    for step in undo_order(taken.steps[: taken.begun]):
        try:
            notes += _undo_step(step, machine)
        except (PairproxyError, OSError) as error:
            failures.append(error.sentence if isinstance(error, PairproxyError) else str(error.strerror))
    if failures:
        # An engine that is still away does not come back by itself: the front need not wait for it to.
        _wish(home, "take" if answers(taken.kind, taken.moved) else "usual", taken.usual)
        raise TakeoverFailed(
            f"Not all could be put back: {' '.join(failures)} What is left stands in "
            f"{home / record.RECORD_FILE}; run `pairproxy release` to try again."
        )
    if not any(isinstance(note, NothingStarts) for note in notes):
        tell(f"waiting for {name_of(taken.kind)} on port {taken.usual}")
        notes += _until_back(taken)
    try:
        record.write(home, record.read(home).without(taken.kind))
    except StoreError as error:
        raise TakeoverFailed(
            f"All was put back, but its record could not be deleted: {error.sentence} Then run "
            "`pairproxy release` once more; it changes nothing else."
        ) from error
    finally:
        _wish(home, "usual", taken.usual)
    return notes


def undo_order(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """In reverse; those that say so at the end, in the order in which they were done."""
    return (
        *(step for step in reversed(steps) if not step.undo_in_order),
        *(step for step in steps if step.undo_in_order),
    )


def _undo_step(step: Step, machine: Machine) -> tuple[str, ...]:
    for _ in range(UNDO_TRIES - 1):
        try:
            return step.undo(machine)
        except (PairproxyError, OSError):
            time.sleep(UNDO_PAUSE_S)
    return step.undo(machine)


def _until_back(taken: Taken) -> list[str]:
    end = time.monotonic() + WAIT_S
    while not answers(taken.kind, taken.usual):
        if time.monotonic() >= end:
            return [f"{name_of(taken.kind)} does not answer on port {taken.usual} yet: see whether it runs."]
        time.sleep(PAUSE_S)
    return []


def _pause(machine: Machine, end: float, why: str) -> None:
    if machine.is_stopped():
        raise Stopped("Stopped while waiting.")
    if time.monotonic() >= end:
        raise TakeoverFailed(why)
    time.sleep(PAUSE_S)


def _because(front: PortStatus | None) -> str:
    if front is None:
        return "."
    return f": {front.why}" if front.why else f": it is {front.state}."


def _front(ports: tuple[PortStatus, ...], port: int) -> PortStatus | None:
    return next((one for one in ports if one.port == port), None)


def _keep(home: Path, taken: Taken) -> None:
    record.write(home, record.read(home).with_(taken))


def _wish(home: Path, want: Literal["take", "give", "usual"], port: int) -> None:
    """Tell the daemon, if there is one that can be told: putting back must work without."""
    try:
        ports_wish(home, PortWish(want, port))
    except (NoDaemon, PairproxyError):
        return

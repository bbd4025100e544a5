"""Changes of this machine that belong together: shown before, done in order, taken back if one fails."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pairproxy.core.errors import SetupError
from pairproxy.takeover.files import (
    FileState,
    make_directory,
    missing_directories,
    put,
    remove,
    remove_directory,
    state_of,
)
from pairproxy.takeover.running import TIMEOUT_S, Runner

ROOT_ID = 0


@dataclass(frozen=True, slots=True)
class Write:
    """Put a text file in place, with the directories above it."""

    path: Path
    text: str
    needs_root: bool = False
    mode: int = 0o644
    encoding: str = "utf-8"

    def line(self, runner: Runner) -> str:
        """What is done, for a person."""
        return f"write {self.path}" + (" (as root)" if self.needs_root and not runner.is_root else "")


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a file, and up to ``most_directories`` of the directories above it, as far as they are empty."""

    path: Path
    needs_root: bool = False
    most_directories: int = 0

    def line(self, runner: Runner) -> str:
        """What is done, for a person."""
        return f"remove {self.path}" + (" (as root)" if self.needs_root and not runner.is_root else "")


@dataclass(frozen=True, slots=True)
class Do:
    """Run a command; ``undo`` takes it back. ``may_fail``: it is fine if there is nothing to do for it."""

    argv: tuple[str, ...]
    needs_root: bool = False
    undo: tuple[str, ...] = ()
    may_fail: bool = False
    timeout_s: float = TIMEOUT_S

    def line(self, runner: Runner) -> str:
        """The command, as a person would type it."""
        return f"run: {runner.shown(self.argv, needs_root=self.needs_root)}"


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for what was begun; ``until`` raises SetupError if it came to nothing."""

    what: str
    until: Callable[[], None]

    def line(self, runner: Runner) -> str:
        """What is waited for, for a person."""
        return f"wait until {self.what}"


Change = Write | Remove | Do | Wait


def perform(changes: Sequence[Change], runner: Runner, undone: Sequence[Do] = ()) -> None:
    """Make all changes. Raises SetupError, and what was changed is as it was before then.

    ``undone``: what is run after the files are as they were, so that the system takes notice.
    """
    before: list[tuple[Change, FileState | None, tuple[str, ...]]] = []
    try:
        for change in changes:
            before.append(_noted(change, runner))
            _make(change, runner)
    except BaseException:
        for change, state, made in reversed(before):
            with contextlib.suppress(SetupError):
                _take_back(change, state, made, runner)
        for change in undone if before else ():
            with contextlib.suppress(SetupError):
                _make(change, runner)
        raise


def _noted(change: Change, runner: Runner) -> tuple[Change, FileState | None, tuple[str, ...]]:
    """A change with the file as it is, and with the directories that are not there yet."""
    if isinstance(change, Do | Wait):
        return change, None, ()
    made = missing_directories(change.path) if isinstance(change, Write) else ()
    return change, state_of(change.path, runner), made


def _make(change: Change, runner: Runner) -> None:
    if isinstance(change, Write):
        for directory in missing_directories(change.path):
            make_directory(Path(directory), runner, needs_root=change.needs_root)
        owner = ROOT_ID if change.needs_root else None
        state = FileState(change.text.encode(change.encoding), change.mode, owner, owner)
        put(change.path, state, runner, needs_root=change.needs_root)
    elif isinstance(change, Remove):
        remove(change.path, runner, needs_root=change.needs_root)
        for parent in list(change.path.parents)[: change.most_directories]:
            if not remove_directory(parent, runner, needs_root=change.needs_root):
                break
    elif isinstance(change, Wait):
        change.until()
    elif change.may_fail:
        runner.run(change.argv, needs_root=change.needs_root, timeout_s=change.timeout_s)
    else:
        runner.do(change.argv, needs_root=change.needs_root, timeout_s=change.timeout_s)


def _take_back(change: Change, state: FileState | None, made: Sequence[str], runner: Runner) -> None:
    if isinstance(change, Wait):
        return
    if isinstance(change, Do):
        if change.undo:
            runner.run(change.undo, needs_root=change.needs_root)
        return
    if state is not None:
        put(change.path, state, runner, needs_root=change.needs_root)
        return
    remove(change.path, runner, needs_root=change.needs_root)
    for directory in reversed(made):
        if not remove_directory(Path(directory), runner, needs_root=change.needs_root):
            return

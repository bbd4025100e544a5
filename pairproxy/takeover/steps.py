"""One change of this machine each, with what undoes it exactly; the undo record holds them as they are.

Every step can be done twice, and undone twice; undoing one that was only half done, or not at all, is fine.
What somebody else has changed since is never overwritten: undo() leaves it and says so.
"""

from pathlib import Path

import msgspec

from pairproxy.takeover import files
from pairproxy.takeover.asking import answers, is_refused
from pairproxy.takeover.files import FileState
from pairproxy.takeover.machine import WAIT_S, Machine, NothingStarts, StepFailed, Stopped, Variables, until
from pairproxy.takeover.restarting import Restart
from pairproxy.takeover.running import Done, Runner

__all__ = [
    "WAIT_S", "Machine", "Restart", "Run", "SetVariable", "Step", "StepFailed", "Stopped", "Variables",
    "WaitForEngine", "WaitForRefused", "WriteFile", "write_file",
]  # fmt: skip


class WriteFile(msgspec.Struct, frozen=True, tag="write-file"):
    """Write a file of settings. Made by write_file(), which looks at what was there."""

    path: str
    content: str
    mode: int
    needs_root: bool = False
    before: FileState | None = None
    directories: tuple[str, ...] = ()  # made for it, outermost first
    undo_in_order: bool = False

    def describe(self, runner: Runner) -> tuple[str, ...]:
        """What is changed, in lines."""
        what = "replace" if self.before is not None else "write"
        who = " as root" if self.needs_root else ""
        lines = [f"make the directory {one}{who}" for one in self.directories]
        lines.append(f"{what} {self.path}{who} (mode {self.mode:04o}):")
        return (*lines, *(f"    {line}" for line in self.content.splitlines()))

    def describe_undo(self, runner: Runner) -> tuple[str, ...]:
        """What is put back."""
        who = " as root" if self.needs_root else ""
        what = "remove" if self.before is None else "put back as it was:"
        lines = [f"remove the directory {one}{who}, if it is empty" for one in reversed(self.directories)]
        return (f"{what} {self.path}{who}", *lines)

    def do(self, machine: Machine) -> None:
        """Raises StepFailed if somebody changed the file since, FileTrouble, CommandFailed."""
        path, now = Path(self.path), files.state_of(Path(self.path), machine.runner)
        if not self._is_ours(now) and now != self.before and now is not None:
            raise StepFailed(
                f"{self.path} was changed by somebody else, so it is left alone. Look at it first."
            )
        for one in self.directories:
            files.make_directory(Path(one), machine.runner, needs_root=self.needs_root)
        owner = (0, 0) if self.needs_root else (None, None)
        state = FileState(self.content.encode(), self.mode, *owner)
        files.put(path, state, machine.runner, needs_root=self.needs_root)

    def undo(self, machine: Machine) -> tuple[str, ...]:
        """Put back what was there. Returns what was left alone. Raises FileTrouble, CommandFailed."""
        path, runner = Path(self.path), machine.runner
        now, notes = files.state_of(path, runner), []
        files.sweep(path, runner, needs_root=self.needs_root)
        if self._is_ours(now):
            if self.before is None:
                files.remove(path, runner, needs_root=self.needs_root)
            else:
                files.put(path, self.before, runner, needs_root=self.needs_root)
        elif now is None and self.before is not None:
            notes.append(f"{self.path} was removed by somebody else: it stays so.")
        elif now != self.before:
            notes.append(f"{self.path} was changed by somebody else since: it stays as it is. Look at it.")
        for one in reversed(self.directories):
            files.remove_directory(Path(one), runner, needs_root=self.needs_root)
        return tuple(notes)

    def _is_ours(self, now: FileState | None) -> bool:
        return now is not None and now.content == self.content.encode()


def write_file(
    path: Path, content: str, runner: Runner, *, mode: int = 0o644, needs_root: bool = False
) -> WriteFile:
    """The step that writes a file, with what is there now. Raises FileTrouble, CommandFailed."""
    before = files.state_of(path, runner)
    return WriteFile(str(path), content, mode, needs_root, before, files.missing_directories(path))


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Run a command of the system; ``undo_with`` is run to undo it, nothing if None.

    ``undo_in_order``: undone after the steps that are not, and in the order of doing: a restart has to
    come last in both directions. ``gone``: the exit status by which the command says, when undoing, that what
    it is about is not there any more; then there is nothing to undo.
    """

    argv: tuple[str, ...] | None = None
    undo_with: tuple[str, ...] | None = None
    needs_root: bool = False
    undo_in_order: bool = False
    may_fail: bool = False  # doing it is an attempt: what follows shows whether it worked
    undo_may_fail: bool = False
    gone: int | None = None
    timeout_s: float = 120.0

    def describe(self, runner: Runner) -> tuple[str, ...]:
        """What is run."""
        return () if self.argv is None else (f"run: {runner.shown(self.argv, needs_root=self.needs_root)}",)

    def describe_undo(self, runner: Runner) -> tuple[str, ...]:
        """What is run to undo it."""
        if self.undo_with is None:
            return ()
        return (f"run: {runner.shown(self.undo_with, needs_root=self.needs_root)}",)

    def do(self, machine: Machine) -> None:
        """Raises CommandFailed."""
        self._run(machine, self.argv, self.may_fail)

    def undo(self, machine: Machine) -> tuple[str, ...]:
        """Returns what is not there any more. Raises CommandFailed."""
        done = self._run(machine, self.undo_with, self.undo_may_fail, self.gone)
        if done is None or done.is_ok or done.status != self.gone:
            return ()
        return (NothingStarts(f"It was removed since, so nothing is started again ({done.why})."),)

    def _run(
        self, machine: Machine, argv: tuple[str, ...] | None, may_fail: bool, accepted: int | None = None
    ) -> Done | None:
        if argv is None:
            return None
        if may_fail:
            return machine.runner.run(argv, needs_root=self.needs_root, timeout_s=self.timeout_s)
        return machine.runner.do(
            argv, needs_root=self.needs_root, timeout_s=self.timeout_s, accepted=accepted
        )


class SetVariable(msgspec.Struct, frozen=True, tag="set-variable"):
    """Set an environment variable of the person for good. ``before``: its value and type, None if not set."""

    name: str
    value: str
    kind: int  # of the registry: 1 is REG_SZ
    before: tuple[str, int] | None = None
    needs_root: bool = False
    undo_in_order: bool = False

    def describe(self, runner: Runner) -> tuple[str, ...]:
        """What is set."""
        old = "" if self.before is None else f" (it was {self.before[0]})"
        return (f"set your environment variable {self.name} to {self.value}{old}",)

    def describe_undo(self, runner: Runner) -> tuple[str, ...]:
        """What is put back."""
        if self.before is None:
            return (f"unset your environment variable {self.name}",)
        return (f"set your environment variable {self.name} back to {self.before[0]}",)

    def do(self, machine: Machine) -> None:
        """Raises StepFailed if somebody changed it since."""
        variables = _variables(machine)
        if variables.get(self.name) not in (self.before, (self.value, self.kind)):
            raise StepFailed(
                f"{self.name} was changed by somebody else, so it is left alone. Look at it first."
            )
        variables.set(self.name, self.value, self.kind)
        variables.announce()

    def undo(self, machine: Machine) -> tuple[str, ...]:
        """Put back what was there; what somebody else set since stays."""
        variables = _variables(machine)
        now = variables.get(self.name)
        if now == self.before:
            return ()
        if now != (self.value, self.kind):
            return (f"{self.name} was changed by somebody else since: it stays as it is.",)
        if self.before is None:
            variables.delete(self.name)
        else:
            variables.set(self.name, *self.before)
        variables.announce()
        return ()


class WaitForEngine(msgspec.Struct, frozen=True, tag="wait-for-engine"):
    """Wait until the engine answers at a port of loopback."""

    kind: str
    port: int
    timeout_s: float = WAIT_S
    needs_root: bool = False
    undo_in_order: bool = False

    def describe(self, runner: Runner) -> tuple[str, ...]:
        """What is waited for."""
        return (f"wait until the engine answers at 127.0.0.1:{self.port} ({self.timeout_s:.0f} s at most)",)

    def describe_undo(self, runner: Runner) -> tuple[str, ...]:
        """Nothing was changed."""
        return ()

    def do(self, machine: Machine) -> None:
        """Raises StepFailed if it does not, Stopped."""
        if not until(lambda: answers(self.kind, self.port), self.timeout_s, machine):
            raise StepFailed(f"The engine did not answer at 127.0.0.1:{self.port} in {self.timeout_s:.0f} s.")

    def undo(self, machine: Machine) -> tuple[str, ...]:
        """Nothing was changed."""
        return ()


class WaitForRefused(msgspec.Struct, frozen=True, tag="wait-for-refused"):
    """Wait until nobody listens on a port of 127.0.0.1."""

    port: int
    timeout_s: float = WAIT_S
    needs_root: bool = False
    undo_in_order: bool = False

    def describe(self, runner: Runner) -> tuple[str, ...]:
        """What is waited for."""
        return (f"wait until port {self.port} is free ({self.timeout_s:.0f} s at most)",)

    def describe_undo(self, runner: Runner) -> tuple[str, ...]:
        """Nothing was changed."""
        return ()

    def do(self, machine: Machine) -> None:
        """Raises StepFailed if it does not come free, Stopped."""
        if not until(lambda: is_refused(self.port), self.timeout_s, machine):
            raise StepFailed(f"Port {self.port} did not become free in {self.timeout_s:.0f} s.")

    def undo(self, machine: Machine) -> tuple[str, ...]:
        """Nothing was changed."""
        return ()


Step = WriteFile | Run | Restart | SetVariable | WaitForEngine | WaitForRefused


def _variables(machine: Machine) -> Variables:
    if machine.variables is None:
        raise StepFailed("This system keeps no environment variables of a person.")
    return machine.variables

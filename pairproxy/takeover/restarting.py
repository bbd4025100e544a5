"""A program that is ended and started again by its own manager: the last thing in both directions."""

import os
from dataclasses import replace

import msgspec

from pairproxy.takeover.machine import Machine, NothingStarts, StepFailed, until
from pairproxy.takeover.running import CommandFailed, Runner

GONE_S = 30.0  # the Ollama app gives its server 5 s before it kills it


class Restart(msgspec.Struct, frozen=True, tag="restart"):
    """End a program, wait until it is gone, and start it; to undo it, the same with ``start_again``.

    ``executable``: of the process that has to be gone in between, "" if the command itself waits for it.
    Undone after all that is not undo_in_order, so that the program comes up with its old settings.
    """

    stop: tuple[str, ...]
    start: tuple[str, ...]
    start_again: tuple[str, ...]
    executable: str = ""
    by_hand: str = ""  # what a person can do if it does not end, a sentence
    gone_s: float = GONE_S
    timeout_s: float = 120.0  # of each command
    needs_root: bool = False
    undo_in_order: bool = True

    def describe(self, runner: Runner) -> tuple[str, ...]:
        """What is run."""
        lines = [f"run: {runner.shown(self.stop, needs_root=self.needs_root)}"]
        if self.executable:
            lines.append(f"wait until {self.executable} has ended ({self.gone_s:.0f} s at most)")
        return (*lines, f"run: {runner.shown(self.start, needs_root=self.needs_root)}")

    def describe_undo(self, runner: Runner) -> tuple[str, ...]:
        """What is run to undo it."""
        stop, start = (runner.shown(one, needs_root=self.needs_root) for one in (self.stop, self.start_again))
        return (f"run: {stop}", f"run: {start}")

    def do(self, machine: Machine) -> None:
        """Raises CommandFailed, StepFailed if it does not end, Stopped."""
        machine.runner.do(self.stop, needs_root=self.needs_root, timeout_s=self.timeout_s)
        self._until_gone(machine)
        machine.runner.do(self.start, needs_root=self.needs_root, timeout_s=self.timeout_s)

    def undo(self, machine: Machine) -> tuple[str, ...]:
        """Returns what could not be done for it is not there any more. Raises StepFailed."""
        gone = [one for one in (self.executable, self.start_again[0]) if is_gone(one)]
        if gone:
            return (NothingStarts(f"{gone[0]} was removed since, so nothing is started again."),)
        trouble = ""
        try:
            done = machine.runner.run(self.stop, needs_root=self.needs_root, timeout_s=self.timeout_s)
            trouble = "" if done.is_ok else done.why
        except CommandFailed as error:
            trouble = str(error)
        # One that does not run cannot be ended: whether it runs is seen by its process, or by the start.
        self._until_gone(replace(machine, is_stopped=lambda: False))  # what undoes is not stopped half way
        try:
            machine.runner.do(self.start_again, needs_root=self.needs_root, timeout_s=self.timeout_s)
        except CommandFailed as error:
            raise StepFailed(f"{error}{f' Before it: {trouble}.' if trouble else ''}") from None
        return ()

    def _until_gone(self, machine: Machine) -> None:
        if not self.executable:
            return
        if not until(lambda: not is_running(self.executable), self.gone_s, machine):
            name = os.path.basename(self.executable)  # noqa: PTH119 of another system's path in tests, too
            raise StepFailed(f"{name} did not end in {self.gone_s:.0f} s. {self.by_hand}".rstrip())


def is_gone(program: str) -> bool:
    """Whether a program that was named by its whole path is not there: somebody removed it."""
    return os.path.isabs(program) and not os.path.lexists(program)  # noqa: PTH117 of Windows' paths, too


def is_running(executable: str) -> bool:
    """Whether any process of this person runs that program."""
    import psutil  # a daemon that mends nothing has no use for it

    wanted = os.path.normcase(executable)
    for process in psutil.process_iter():
        try:
            if os.path.normcase(process.exe()) == wanted and process.status() != psutil.STATUS_ZOMBIE:
                return True
        except (psutil.Error, OSError):  # it ended meanwhile, or belongs to somebody else
            continue
    return False

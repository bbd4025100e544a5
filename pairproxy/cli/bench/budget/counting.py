"""Counts the calls of Python functions in the main thread of a program: counting.py FILE PROGRAM...

PROGRAM is what python itself takes: a script, or -m and a module, with arguments. SIGUSR1 begins to count,
the next one ends it. FILE tells how far it is: COUNTING, then the number.
"""

import cProfile
import runpy
import signal
import sys
from pathlib import Path

COUNTING = "counting"


class Counter:
    """Begins and ends in turn, and writes it into a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._profile: cProfile.Profile | None = None

    def turn(self, *_: object) -> None:
        """What a signal calls."""
        if self._profile is None:
            self._profile = cProfile.Profile(builtins=False)
            self._write(COUNTING)
            self._profile.enable()
            return
        self._profile.disable()
        self._write(str(sum(entry.callcount for entry in self._profile.getstats())))
        self._profile = None

    def _write(self, text: str) -> None:
        half_written = self._file.with_suffix(".new")
        half_written.write_text(text)
        half_written.replace(self._file)  # who reads it sees the old or the new


def main(file: str, *program: str) -> None:
    """Run the program, counted on request."""
    signal.signal(signal.SIGUSR1, Counter(Path(file)).turn)
    if program[0] == "-m":
        sys.argv = [*program[1:]]
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [*program]
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])

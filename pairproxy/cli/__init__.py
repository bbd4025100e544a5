"""The commands, one per file. Each imports what it needs when it runs: `status` starts in a moment.

Exit status: 0 done, 1 it failed (one sentence says why and what to do), 2 wrong usage, 3 no daemon runs.

``pairproxy up`` with options in their plain form is read without typer (plain_up): that and pydantic below it
would stay in the daemon's memory for its whole life, 11 MB, and take a third of its start.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG)
"""What a write to standard output may end with; of files of ours that cannot be written others tell."""


def main() -> None:
    """Run the command line; an error of ours becomes its sentence and its exit status."""
    from pairproxy.core.errors import PairproxyError

    if sys.stdout is None:  # it was closed: who started this wants no output
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - to the end of the process
    try:
        _run()
    except PairproxyError as error:
        from pairproxy.api.client import NoDaemon

        _say(error.sentence)
        sys.exit(3 if isinstance(error, NoDaemon) else 1)
    except BaseExceptionGroup as group:  # what a task group raises
        ours, others = group.split(PairproxyError)
        if ours is None or others is not None:
            raise
        for sentence in sorted({error.sentence for error in _leaves(ours)}):
            _say(sentence)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> None:
    """Run the command; whatever stands behind standard output, it takes the text or one sentence says no."""
    try:
        try:
            _command()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS or error.filename is not None:
            raise
        with contextlib.suppress(OSError, ValueError):  # what is left would be written again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # whoever reads has read enough
            _say(f"The output cannot be written: {error.strerror}. Send it elsewhere.")
        sys.exit(1)


def _command() -> None:
    from pairproxy.cli.plain_up import options_of

    options = options_of(sys.argv[1:], os.environ)
    if options is None:
        from pairproxy.cli.commands import app

        app()
    else:
        from pairproxy.cli.serving import serve

        serve(options)


def _say(sentence: str) -> None:
    """Tell a person, where standard error still leads to one."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"{sentence}\n")


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[Any]:
    for error in group.exceptions:
        yield from _leaves(error) if isinstance(error, BaseExceptionGroup) else (error,)

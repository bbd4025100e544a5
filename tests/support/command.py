"""The command line as a person runs it: in a process of its own, or here, which is faster."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pairproxy import cli

TIMEOUT_S = 50.0


def environment(**settings: str) -> dict[str, str]:
    """Ours, without a terminal's colours and width."""
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", **settings}


def pairproxy(
    *arguments: str | Path, flags: tuple[str, ...] = (), **settings: str
) -> "subprocess.CompletedProcess[str]":
    """Run `pairproxy ARGUMENTS`; ``flags`` are the interpreter's, ``settings`` environment variables."""
    return subprocess.run(
        [sys.executable, *flags, "-m", "pairproxy", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment(**settings),
    )


def here(*arguments: str | Path, **settings: str) -> "subprocess.CompletedProcess[str]":
    """The same in this process, forty times faster: for what ends before anything is started."""
    command = ["pairproxy", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    status: object = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", command)
        for name, value in environment(**settings).items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                cli.main()
            except SystemExit as ended:
                status = ended.code or 0
    assert isinstance(status, int)
    return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())


def sentence(done: "subprocess.CompletedProcess[str]") -> str:
    """What it said on standard error: one line, and nothing on standard output."""
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]

"""The command line as a person runs it: a process with its own environment."""

import os
import subprocess
import sys
from pathlib import Path

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


def sentence(done: "subprocess.CompletedProcess[str]") -> str:
    """What it said on standard error: one line, and nothing on standard output."""
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]

import asyncio
import signal
import subprocess
import sys

import pytest

from pairproxy.cli.ending import ENDED_BY_SIGNAL, run_to_its_end

SCENE = """
import asyncio, sys, typer
from pairproxy.cli.ending import run_to_its_end

async def work():
    try:
        print("at work", flush=True)
        await asyncio.sleep(60)
    finally:
        print("put away", flush=True)

try:
    run_to_its_end(work())
except typer.Exit as end:
    sys.exit(end.exit_code)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_it_put_everything_away(number: signal.Signals) -> None:
    """The work is cancelled, cleans up, and the exit status is the shell's for SIGTERM."""
    process = subprocess.Popen([sys.executable, "-c", SCENE], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    process.send_signal(number)
    assert process.communicate(timeout=20)[0] == "put away\n"
    assert process.returncode == ENDED_BY_SIGNAL


def test_what_came_of_it_is_returned() -> None:
    """Without a signal it is asyncio.run()."""

    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert run_to_its_end(work()) == 7

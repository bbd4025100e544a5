import subprocess
import sys
from pathlib import Path

import pytest

from pairproxy.cli.bench.budget import counting

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGUSR1")
PATIENCE_S = 30.0
PROGRAM = """
import os, signal, sys

def called():
    return len("not counted: it is not Python's")

for wanted in map(int, sys.argv[1:]):
    os.kill(os.getpid(), signal.SIGUSR1)
    for _ in range(wanted):
        called()
    os.kill(os.getpid(), signal.SIGUSR1)
    print(open(FILE).read())
"""


def counted(*arguments: str) -> str:
    """What a program prints that is run around."""
    command = [sys.executable, counting.__file__, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout


def test_calls_between_two_signals_are_counted(tmp_path: Path) -> None:
    """As often as it is asked for; what the counter itself calls is the same each time."""
    program, file = tmp_path / "program.py", tmp_path / "calls"
    program.write_text(PROGRAM.replace("FILE", repr(str(file))))
    first, second, third = map(int, counted(str(file), str(program), "100", "0", "1100").split())
    assert 100 <= first <= 110
    assert (first - second, third - second) == (100, 1100)


def test_a_module_is_run_as_python_does_it(tmp_path: Path) -> None:
    """With its arguments."""
    assert "usage" in counted(str(tmp_path / "calls"), "-m", "json.tool", "--help")

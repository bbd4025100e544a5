import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from pairproxy.engines.llama_child import ChildSettings
from tests.support.embedded import model_cache

ROOT = Path(__file__).parents[2]


def start_child() -> "subprocess.Popen[bytes]":
    """The program, started by hand with its settings on standard input."""
    (file,) = (model_cache() / "models").glob("*.gguf")
    child = subprocess.Popen(
        [sys.executable, "-m", "pairproxy.engines.llama_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert child.stdin is not None
    wanted = ChildSettings(str(file), "tiny", slots=1, context_tokens=256, threads=1, parent=os.getpid())
    child.stdin.write(msgspec.json.encode(wanted) + b"\n")
    child.stdin.flush()
    return child


def test_it_says_one_line_and_ends_with_its_input() -> None:
    """It prints where it answers, nothing else on either stream, and ends well when its input does."""
    child = start_child()
    assert child.stdout is not None
    reply = json.loads(child.stdout.readline())
    assert (reply["host"], reply["trouble"]) == ("127.0.0.1", "")
    assert 0 < reply["port"] < 65536
    rest, errors = child.communicate(timeout=5)  # closes its input
    assert (child.returncode, rest, errors) == (0, b"", b"")

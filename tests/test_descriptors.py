"""Descriptors are counted, the limit is raised as far as it goes, and no crash writes memory to a disk."""

import ast
import inspect
import os
import subprocess
import sys

import pytest

resource = pytest.importorskip("resource", reason="this system has no limits of this kind")


def free_now() -> int:
    """How many more files can be opened, by opening them."""
    opened: list[int] = []
    try:
        while True:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return len(opened)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def run_limited(soft: int, hard: int, code: str) -> str:
    """What Python code prints in a process with these limits."""
    limits = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
    imports = "from pairproxy.descriptors import *\n"
    command = [sys.executable, "-c", limits + imports + code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()


def test_they_are_counted_exactly_when_few_are_free() -> None:
    """F44: what is said to be free can be opened, whatever numbers are in use; in a process of its own."""
    code = f"""
import os
{inspect.getsource(free_now)}
descriptors = Descriptors()
told = [(descriptors.free(), free_now())]
opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(100)]
for descriptor in opened[:40]:  # holes below the highest number
    os.close(descriptor)
told.append((descriptors.free(), free_now()))
print(told)
"""
    (at_first, could), (later, could_later) = ast.literal_eval(run_limited(150, 150, code))
    assert at_first == could > 100
    assert later == could_later == at_first - 60


def test_the_limit_is_raised_as_far_as_the_system_allows() -> None:
    """A process started with 128 of 500 may open 500, and the hard limit stays."""
    code = "raise_limit(); print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    assert run_limited(128, 500, code) == "(500, 500)"


def test_no_core_is_dumped() -> None:
    """The limit of a core file is 0, and cannot be raised again."""
    assert (
        run_limited(100, 100, "forbid_core_dumps(); print(resource.getrlimit(resource.RLIMIT_CORE))")
        == "(0, 0)"
    )

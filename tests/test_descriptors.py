"""Descriptors are counted, the limit is raised as far as it goes, and no crash writes memory to a disk."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pairproxy.descriptors import Descriptors

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


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """A soft limit of 150 or so more than are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = soft - Descriptors().free()
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 150, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_descriptors")
def test_they_are_counted_exactly_when_few_are_free() -> None:
    """F44: what is said to be free can be opened, whatever numbers are in use."""
    descriptors = Descriptors()
    at_first = free_now()
    assert descriptors.free() == at_first
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(100)]
    for descriptor in opened[:40]:  # holes below the highest number
        os.close(descriptor)
    assert descriptors.free() == free_now() == at_first - 60
    for descriptor in opened[40:]:
        os.close(descriptor)


def run_limited(soft: int, hard: int, code: str) -> str:
    """What Python code prints in a process with these limits."""
    limits = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
    imports = "from pairproxy.descriptors import *\n"
    command = [sys.executable, "-c", limits + imports + code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()


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

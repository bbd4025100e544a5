"""The same tree gives the same table: nothing in the core depends on what Python makes up anew each time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pairproxy

ROOT = Path(pairproxy.__file__).parents[1]  # compiled, where that is what is tested
COURSE = "from pairproxy.core.experiments.protocol import storm; print(storm(0, 3000))"


@pytest.mark.slow
def test_a_simulation_takes_the_same_course_in_every_process() -> None:
    """Python orders sets of names by a salted hash; four origins that talk to each other would show it."""
    courses = set()
    for salt in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", COURSE],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        courses.add(done.stdout)
    assert len(courses) == 1

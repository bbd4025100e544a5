import asyncio
import os
import sys
from pathlib import Path

import pytest

from pairproxy.cli.bench.budget.measuring import CALLS, CASES, DAEMON, cores, measure, what_is_missing
from pairproxy.cli.bench.overhead.processes import CannotStart


def test_it_says_what_it_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of Debian's, or the system."""
    monkeypatch.setattr("shutil.which", lambda name: name if name == "taskset" else None)
    monkeypatch.setattr(sys, "platform", "linux")
    assert what_is_missing() == "setpriv missing (Debian: `apt install util-linux`)."
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "needs Linux" in str(what_is_missing())


@pytest.mark.skipif(sys.platform != "linux", reason="cores are chosen on Linux")
def test_one_core_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are better, and only those that may be used."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 3, 4})
    assert cores() == (3, 5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert cores() == (3, 3)


@pytest.mark.slow
@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
def test_a_daemon_and_the_pass_through_are_measured(tmp_path: Path) -> None:
    """Each case has a figure of the right size; afterwards this process may use all cores again."""
    before, said = os.sched_getaffinity(0), list[str]()
    found = asyncio.run(measure(1, DAEMON, tmp_path, said.append))
    assert list(found) == [one.case.name for one in (*CASES, *CALLS)]
    assert all(0.1 < found[one.case.name] < 50 for one in CASES)
    assert 10 < found["request-calls"] < 2000
    assert found["token-calls"] < found["request-calls"]
    assert (os.sched_getaffinity(0), len(said)) == (before, len(found))


@pytest.mark.slow
@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
def test_a_daemon_that_does_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    """It is not waited for."""
    program = tmp_path / "broken.py"
    program.write_text("raise SystemExit('out of order')")
    with pytest.raises(CannotStart, match="out of order"):
        asyncio.run(measure(1, (str(program),), tmp_path, lambda _: None))

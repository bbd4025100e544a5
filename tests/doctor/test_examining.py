import threading
import time
from pathlib import Path

import pytest

from pairproxy.doctor.checks import CHECKS
from pairproxy.doctor.examining import examine, gather, judge, lacking, scene_of, together
from pairproxy.doctor.facts import Unknown
from tests.support.diagnosed import facts, found


def test_healthy_facts_have_no_finding() -> None:
    """And everything was looked at."""
    diagnosis = judge(facts(), "A", 1.234)
    assert (diagnosis.findings, diagnosis.is_ok, diagnosis.not_looked_at) == ((), True, ())
    assert (diagnosis.took_s, diagnosis.has_daemon) == (1.23, True)
    assert len(diagnosis.looked_at) == len(CHECKS)


def test_what_is_not_known_is_not_judged_and_said() -> None:
    """With the reason."""
    diagnosis = judge(facts(status=Unknown("the daemon sleeps")), "A", 0.0)
    assert {one.why for one in diagnosis.not_looked_at} == {"the daemon sleeps"}
    assert "peers" in {one.what for one in diagnosis.not_looked_at}
    assert not {one.what for one in diagnosis.not_looked_at} & set(diagnosis.looked_at)


def test_the_worst_comes_first_and_notes_do_no_harm() -> None:
    """problem, warning, note; is_ok is about the first two."""
    machine = facts().machine
    slow = type(machine)("3.13.0", "linux", has_fast_loop=False, has_fast_parser=False)
    assert found(machine=slow, settings_problem="config.toml is not TOML.") == [
        "settings-wrong",
        "parser-slow",
        "loop-slow",
    ]
    only_note = type(machine)("3.13.0", "linux", has_fast_loop=False)
    assert judge(facts(machine=only_note), "A", 0.0).is_ok


def test_every_check_names_facts_that_there_are() -> None:
    """A name that is none would raise only when somebody asks."""
    assert all(lacking(facts(), check) is None for check in CHECKS)
    assert len({check.looks_at for check in CHECKS}) == len(CHECKS)


@pytest.mark.timed
def test_probes_run_together_and_one_that_hangs_or_fails_harms_nobody() -> None:
    """The patience is for all of them."""
    both, for_ever = threading.Barrier(2, timeout=5), threading.Event()

    def fail() -> None:
        raise ValueError("a secret")

    began_at = time.monotonic()
    told = together(
        {"one": both.wait, "two": both.wait, "fails": fail, "hangs": lambda: for_ever.wait(30)}, 0.3
    )
    for_ever.set()
    assert {told["one"], told["two"]} == {0, 1}
    assert told["fails"] == Unknown("looking failed (ValueError)")
    assert isinstance(told["hangs"], Unknown)
    assert time.monotonic() - began_at < 10


def test_a_home_that_was_never_used_has_notes_and_no_problem(tmp_path: Path) -> None:
    """Nothing is made by looking."""
    home = tmp_path / "none"
    diagnosis = examine(scene_of(home, {"HOME": str(tmp_path), "PATH": ""})).diagnosis
    assert diagnosis.is_ok
    assert "no-daemon" in {one.id for one in diagnosis.findings}
    assert not home.exists()


@pytest.mark.slow
def test_facts_of_a_machine_can_be_gathered_without_any_program(tmp_path: Path) -> None:
    """With an empty PATH no command of the system is found, and that is all that is missing."""
    known = gather(scene_of(tmp_path, {"HOME": str(tmp_path), "PATH": ""}))
    assert isinstance(known.listeners, tuple | Unknown)
    assert not isinstance(known.places, Unknown)
    assert known.surroundings == ()

"""`pairproxy resume`; tests/cli/test_drain.py has what comes before it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import here, sentence
from tests.support.daemons import Daemons, settings


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


def test_resume_says_what_still_withholds_the_slots(daemons: Daemons) -> None:
    """peers.share is "never", say; a reload changes that at once."""
    daemons.home("B", settings(peers={"share": "never"}))
    (b,) = daemons.start("B")
    done = here("resume", "--home", b.home)
    assert done.returncode == 0
    assert done.stdout.startswith("Not drained, but other machines still get no slot here. peers.share is")
    config = b.home / "config.toml"
    config.write_text(config.read_text().replace('"never"', '"always"'))
    assert here("reload", "--home", b.home).stdout == "In force now: peers.share\n"
    assert b.status().offer.withheld == ""


def test_without_a_daemon_nothing_is_done(tmp_path: Path) -> None:
    """Exit status 3, and how to start one."""
    done = here("resume", "--home", tmp_path)
    assert done.returncode == 3
    assert "pairproxy up" in sentence(done)

"""Where a person's files are."""

from pathlib import Path

from pairproxy.takeover.places import home_of
from pairproxy.takeover.running import Runner


def test_the_home_is_that_of_the_commands() -> None:
    """Windows calls it otherwise; without either the system tells."""
    assert home_of(Runner({"HOME": "/me", "USERPROFILE": "/other"})) == Path("/me")
    assert home_of(Runner({"USERPROFILE": "/me"})) == Path("/me")
    assert home_of(Runner({})) == Path.home()

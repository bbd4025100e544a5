"""Whose file it is, which home it tells, and when a service counts as started."""

from pathlib import Path

import pytest

from pairproxy.api.service import ServiceState
from pairproxy.core.errors import SetupError
from pairproxy.service.plans import home_in, our_text, serves, until_it_serves
from pairproxy.service.wanted import HOME, MARK
from pairproxy.takeover.running import Runner


def test_only_what_we_wrote_is_ours(tmp_path: Path) -> None:
    """A file without our mark is left alone, and the sentence says what to do."""
    file = tmp_path / "unit"
    assert our_text(file, Runner()) is None
    file.write_text(f"# {MARK}\n")
    assert our_text(file, Runner()) == f"# {MARK}\n"
    file.write_text("[Service]\n")
    with pytest.raises(SetupError, match="was not written by pairproxy, so it is left alone"):
        our_text(file, Runner())


@pytest.mark.parametrize("line", [f"# {HOME}/a home/100%\n", f"<!-- {HOME}/a home/100% -->\n"])
def test_the_home_is_told_by_the_file(line: str) -> None:
    """In the comments of each kind of file."""
    assert home_in(f"first\n{line}last\n") == "/a home/100%"
    assert home_in("nothing\n") is None
    assert home_in(None) is None


def state(**facts: object) -> ServiceState:
    """A service."""
    return ServiceState("systemd-user", is_installed=True, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "last",
    [
        state(problem="It does not run (exit-code)."),
        state(problem="The port is taken.", restarts=3),
        state(restarts=4),  # it failed between two looks
    ],
)
def test_one_that_fails_says_why(tmp_path: Path, last: ServiceState) -> None:
    """By the manager's word, or because it was started again meanwhile; control characters stay out."""
    told = iter([state(restarts=3), last])
    wait = until_it_serves(lambda: next(told), lambda: "line\nlast\x1b[31m words\n", tmp_path, None)
    with pytest.raises(SetupError, match=r"as it was\. It said: line / last\[31m words$"):
        wait.until()


def test_nobody_serves_an_empty_home(tmp_path: Path) -> None:
    """No daemon.json, no daemon."""
    assert not serves(tmp_path, None)

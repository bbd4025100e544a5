"""What a person reads of a service."""

import io

from msgspec.structs import replace
from rich.console import Console

from pairproxy.api.service import ServiceState
from pairproxy.cli.service_text import tell_installed, tell_state

RUNS = ServiceState(
    "systemd-user",
    True,
    True,
    True,
    "active/running",
    "when you log in",
    "/f",
    "/home",
    7,
    1.5,
    2,
    "A serves",
    "log",
)


def told(one: ServiceState) -> str:
    """All of it."""
    out = Console(file=io.StringIO(), width=200)
    tell_state(out, one)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_one_that_runs() -> None:
    """Since when, what it serves, who started it, where its log is."""
    text = told(RUNS)
    assert text.startswith("The service runs since ")
    assert ", pid 7.\n  A serves\n" in text
    assert "  manager   systemd, your own (active/running)\n  starts    when you log in\n" in text
    assert "  restarts  2, after failures\n  file      /f\n  home      /home\n  log       log\n" in text


def test_one_that_does_not() -> None:
    """Why, and that it does not start by itself; marks of a terminal stay out."""
    stopped = replace(
        RUNS, is_running=False, is_enabled=False, pid=None, since_unix=None, problem="It ended.\x1b[31m"
    )
    text = told(stopped)
    assert "The service does not run.\n" in text
    assert "not by itself: `pairproxy service install`" in text
    assert "A serves" not in text
    assert "\x1b" not in text


def test_one_that_is_not_there_but_whose_file_is() -> None:
    """Only the problem."""
    assert told(ServiceState("launchd", is_installed=False, problem="Not ours.")) == "Not ours.\n"
    assert told(ServiceState("launchd", is_installed=False)) == ""


def test_after_the_installation() -> None:
    """Where its log is, or that it still starts."""
    for one, words in ((RUNS, "starts when you log in"), (replace(RUNS, is_running=False), "still starting")):
        out = Console(file=io.StringIO(), width=200)
        tell_installed(out, one)
        assert isinstance(out.file, io.StringIO)
        assert words in out.file.getvalue()

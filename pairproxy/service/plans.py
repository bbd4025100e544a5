"""What installing and uninstalling change, and whether a file is ours to change."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pairproxy.api.client import NoDaemon, get_status, read_daemon_file
from pairproxy.api.service import ServiceState
from pairproxy.core.errors import PairproxyError, SetupError
from pairproxy.service.changes import Change, Do, Wait
from pairproxy.service.wanted import HOME, MARK
from pairproxy.takeover.files import state_of
from pairproxy.takeover.running import Runner

START_S = 60.0  # a daemon starts in a second and loads a model in some; what takes longer goes on without us
TURN_S = 0.2
_HOME = re.compile(rf"^\W*{HOME}(.+?)(?: -->)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes in order; ``undone`` is run when they were taken back; ``notes``: what a person should know."""

    changes: tuple[Change, ...]
    undone: tuple[Do, ...] = ()
    notes: tuple[str, ...] = ()


def our_text(path: Path, runner: Runner, encoding: str = "utf-8") -> str | None:
    """A file that `pairproxy service install` wrote; None if there is none. Raises SetupError for another."""
    state = state_of(path, runner)
    if state is None:
        return None
    text = state.content.decode(encoding, errors="replace")
    if MARK not in text:
        raise SetupError(
            f"{path} was not written by pairproxy, so it is left alone. Look at what it is, and move it away "
            "if it is not needed."
        )
    return text


def home_in(text: str | None) -> str | None:
    """The home that a file of ours tells."""
    found = _HOME.search(text or "")
    return found[1] if found else None


def until_it_serves(
    state: Callable[[], ServiceState], last_words: Callable[[], str], home: Path, before: int | None
) -> Wait:
    """Wait for the daemon of a service that was started; ``before``: process id of its last life.

    What takes longer than START_S goes on alone. A service that fails raises SetupError with its words.
    """

    def wait() -> None:
        end, fewest = time.monotonic() + START_S, None
        while time.monotonic() < end:
            told = state()
            fewest = told.restarts if fewest is None else min(fewest, told.restarts or 0)
            is_new = before is None or told.pid != before
            if is_new and (told.problem or (told.restarts or 0) > (fewest or 0)):
                words = last_words() or told.problem or ""
                raise SetupError(f"The service does not start, so everything is as it was.{_quoted(words)}")
            if told.is_running and told.pid != before and serves(home, told.pid):
                return
            time.sleep(TURN_S)

    return Wait("it serves", wait)


def until(is_so: Callable[[], bool], most_s: float) -> None:
    """Wait until it is so, for ``most_s`` at most: what comes next says what is wrong."""
    end = time.monotonic() + most_s
    while not is_so() and time.monotonic() < end:
        time.sleep(TURN_S)


def serves(home: Path, pid: int | None) -> bool:
    """Whether a daemon of this home answers, and is this process (None: any)."""
    try:
        return read_daemon_file(home).pid == (pid or read_daemon_file(home).pid) and bool(get_status(home))
    except (NoDaemon, PairproxyError):
        return False


def _quoted(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    printable = "".join(one for one in " / ".join(lines[-3:]) if one.isprintable())
    return f" It said: {printable}" if printable else ""

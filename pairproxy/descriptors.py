"""The process's file descriptors: as many as the system gives, and some kept for the clients of this machine.

Each connection is one, each request of a client two (its engine's connection). Who has none left accepts
nobody and reaches no engine. Systems differ: Windows has no such limit, Linux and macOS list theirs.
"""

import contextlib
import time
from pathlib import Path

LOCAL = 64  # descriptors that peers leave alone: thirty requests of local clients and their engines
LOOKING = 48  # that who looks at the admin port leaves alone: it goes on when peers are refused already
SHORT = 96  # with fewer free ones idle connections give way, so that peers need not be refused for those
LAST = 32  # of these, what no connection may take: for the engines of what runs, files, state streams
MOST = 65_536  # asked for at most: far more than our limits add up to, and macOS refuses "unlimited"
OTHER_MOST = 10_240  # where that is refused: OPEN_MAX of macOS
RECOUNT = 64  # times asked after which a count is not believed any more, unless so many are free:
PLENTY = 4096  # more than all ports and engines' connections together take in RECOUNT_S
RECOUNT_S = 0.25  # and its age: other ports and the engines' connections take descriptors as well

_LISTS = (Path("/proc/self/fd"), Path("/dev/fd"))  # Linux, macOS


def raise_limit() -> None:
    """Ask for as many descriptors as the system allows; what cannot be had is done without."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in (MOST, OTHER_MOST):
        wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return


def forbid_core_dumps() -> None:
    """Let no crash write the memory of the process, prompts included, into a file."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Descriptors:
    """How many descriptors are free. Counting them takes a microsecond each, so it is not done every time."""

    def __init__(self) -> None:
        self._free = 0
        self._asked = 0
        self._counted_at = float("-inf")

    def free(self) -> int:
        """How many are free: exactly if few are, else as of the last count; MOST where there is no limit."""
        self._asked += 1
        now = time.monotonic()
        is_asked = self._asked > RECOUNT and self._free < PLENTY
        is_old = is_asked or now - self._counted_at > RECOUNT_S
        if is_old or self._free < SHORT + 2 * RECOUNT:  # each asker may have taken two since
            self._free, self._asked, self._counted_at = _count_free(), 0, now
        return self._free


def _count_free() -> int:
    try:
        import resource
    except ImportError:
        return MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST
    for directory in _LISTS:
        try:
            return soft + 1 - sum(int(one.name) < soft for one in directory.iterdir())  # one is the listing's
        except FileNotFoundError:
            continue
        except OSError:  # not one left to look with
            return 0
    return MOST

"""What a service is to run: the daemon of this very installation, for one home."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePath

from pairproxy.core.errors import SetupError
from pairproxy.log_file import KEPT, older
from pairproxy.takeover.running import Runner

NAME = "pairproxy"
MARK = "Written by `pairproxy service install`; `pairproxy service uninstall` removes it."
"""In every file of ours: one without it is somebody else's, and left alone."""
HOME = "Home: "
"""Begins, behind a mark of comments, the line that tells the home in every file of ours."""

PASSING = frozenset(
    (("uv", "archive-v0"), ("uv", "environments-v2"), ("uv", "builds-v0"), ("pipx", ".cache"))
)
"""Directories where `uvx` and `pipx run` put what they clean away again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A daemon as a service."""

    command: tuple[str, ...]  # what runs pairproxy's commands
    home: Path
    user: str  # the person's name

    @property
    def up(self) -> tuple[str, ...]:
        """What runs the daemon."""
        return (*self.command, "up", "--home", str(self.home))

    @property
    def reload(self) -> tuple[str, ...]:
        """What lets it read its settings anew."""
        return (*self.command, "reload", "--home", str(self.home))


def this_installation(home: Path, runner: Runner) -> Wanted:
    """The daemon of this installation. Raises SetupError if it will not be there tomorrow."""
    python = sys.executable
    if not python:
        raise SetupError("Python does not say where it is, so no service can start it. Install it anew.")
    parts = PurePath(python).parts
    if not PASSING.isdisjoint(pairwise(parts)):
        raise SetupError(
            "This pairproxy was fetched for one command (uvx, pipx run) and will be cleaned away. Install it "
            "first: `uv tool install pairproxy`, then `pairproxy service install`."
        )
    where = Path(os.path.abspath(home))  # noqa: PTH100 its links are the person's, and stay
    # -P: a directory named pairproxy where the service starts is not this program.
    return Wanted((python, "-P", "-m", "pairproxy"), where, user_of(runner.environment))


def user_of(environment: Mapping[str, str]) -> str:
    """The name of the person who runs this; by number where there is none."""
    if sys.platform == "win32":
        return environment.get("USERNAME", "")
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def unseen(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Variables of this shell that set something, which no service sees."""
    known = {"PAIRPROXY_HOME"}  # given as --home
    return tuple(sorted(name for name in environment if name.startswith("PAIRPROXY_") and name not in known))


def kept_logs(log: Path) -> tuple[Path, ...]:
    """A log that is rotated, and its older parts."""
    return log, *(older(log, number) for number in range(1, KEPT + 1))

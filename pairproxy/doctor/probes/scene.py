"""What is looked at, and through what."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pairproxy.takeover.running import Runner

COMMAND_S = 3.0  # for one command of the system; those that are asked here only read


@dataclass(frozen=True, slots=True)
class Scene:
    """``home``: pairproxy's; ``person``: the person's own home directory; ``runner``: asks the system."""

    home: Path
    person: Path
    environment: Mapping[str, str]
    runner: Runner

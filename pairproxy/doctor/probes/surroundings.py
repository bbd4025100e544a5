"""What programs are told by their environment: by this shell, other shells, the session of a desktop."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from pairproxy.doctor.facts import Told
from pairproxy.doctor.probes.scene import COMMAND_S, Scene
from pairproxy.takeover.leaks import VARIABLES, read_shell_files
from pairproxy.takeover.registry import user_variables
from pairproxy.takeover.running import CommandFailed

HERE = "this shell"
SESSION = "the session of macOS (`launchctl getenv`)"
REGISTRY = "your environment in Windows (HKCU\\Environment)"
MOST_FILES = 64  # that set one of them; a person has a few


def surroundings(scene: Scene, platform: str = sys.platform) -> tuple[Told, ...]:
    """Each place that sets a variable which clients of engines obey."""
    here = {name: scene.environment[name] for name in VARIABLES if name in scene.environment}
    files = islice(read_shell_files(scene.person), MOST_FILES)
    found = [*([Told(HERE, here)] if here else []), *(Told(where, told) for where, told in files)]
    session = {name: value for name, value in _session(scene, platform) if here.get(name) != value}
    if session:
        found.append(Told(REGISTRY if platform == "win32" else SESSION, session))
    return tuple(found)


def _session(scene: Scene, platform: str) -> Iterator[tuple[str, str]]:
    """What programs get that are started by no shell."""
    if platform == "darwin":
        for name in VARIABLES:
            with suppress(CommandFailed):
                value = scene.runner.run(["launchctl", "getenv", name], timeout_s=COMMAND_S).out.strip()
                if value:
                    yield name, value
    variables = user_variables()  # of Windows only
    for name in VARIABLES if variables is not None else ():
        held = None if variables is None else variables.get(name)
        if held is not None:
            yield name, held[0]

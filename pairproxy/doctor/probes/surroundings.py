"""What programs are told by their environment: those started from here, and those that shells start."""

from itertools import islice

from pairproxy.doctor.facts import Told
from pairproxy.doctor.probes.scene import Scene
from pairproxy.takeover.leaks import VARIABLES, read_session, read_shell_files
from pairproxy.takeover.registry import user_variables

HERE = "this shell"
MOST_FILES = 64  # that set one of them; a person has a few


def surroundings(scene: Scene) -> tuple[Told, ...]:
    """Each place that sets a variable which clients of engines obey."""
    here = {name: scene.environment[name] for name in VARIABLES if name in scene.environment}
    files = islice(read_shell_files(scene.person), MOST_FILES)
    session = [(where, told) for where, told in read_session(scene.runner, user_variables()) if told]
    return (
        *((Told(HERE, here),) if here else ()),
        *(Told(where, told) for where, told in (*session, *files)),
    )

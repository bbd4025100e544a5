"""What was changed on this machine for pairproxy: engines that were moved, and the service."""

from pathlib import Path

from pairproxy.api.service import ServiceState
from pairproxy.core.errors import SetupError, StoreError
from pairproxy.doctor.facts import Moved, Unknown
from pairproxy.doctor.probes.scene import Scene
from pairproxy.service.ways import ways
from pairproxy.takeover import record
from pairproxy.takeover.running import Runner


def moved(home: Path) -> tuple[Moved, ...] | Unknown:
    """The engines that were taken over, by the undo record."""
    if not home.is_dir():
        return ()
    try:
        taken = record.read(home).taken
    except StoreError as error:
        return Unknown(error.sentence)
    return tuple(Moved(one.kind, one.usual, one.moved, one.is_done) for one in taken)


def services(scene: Scene) -> tuple[ServiceState, ...] | Unknown:
    """Our services that are installed here, whatever their home, as the system tells of them."""
    runner = Runner(scene.environment, may_ask=False)  # of its own: looking for a session changes it
    try:
        told = [way.state() for way in ways(runner)]
    except SetupError as error:
        return Unknown(error.sentence)
    return tuple(one for one in told if one.is_installed)

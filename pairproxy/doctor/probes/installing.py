"""What was changed on this machine for pairproxy: engines that were moved."""

from pathlib import Path

from pairproxy.core.errors import StoreError
from pairproxy.doctor.facts import Moved, Unknown
from pairproxy.takeover import record


def moved(home: Path) -> tuple[Moved, ...] | Unknown:
    """The engines that were taken over, by the undo record."""
    if not home.is_dir():
        return ()
    try:
        taken = record.read(home).taken
    except StoreError as error:
        return Unknown(error.sentence)
    return tuple(Moved(one.kind, one.usual, one.moved, one.is_done) for one in taken)

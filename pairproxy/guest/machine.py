"""All that can be read of this machine's use, at one moment."""

import contextlib
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from pairproxy.config import PeerSettings
from pairproxy.guest.graphics import Graphics
from pairproxy.guest.inputs import Inputs, Run
from pairproxy.guest.power import Power
from pairproxy.guest.presence import Reading

if TYPE_CHECKING:
    from pairproxy.guest.processor import Processor

GRAPHICS, INPUTS = "the use of its graphics card", "when keyboard and mouse were used"


class Machine:
    """This machine. Its methods block for some ms: for a thread, one at a time."""

    def __init__(self, ports: Callable[[], Collection[int]], run: Run) -> None:
        """``ports``: at which engines answer here. ``run``: runs a program of the system."""
        self._power = Power()
        self._ports = ports
        self._processor: Processor | None = None  # made as it is read, for psutil is a megabyte
        self._graphics = Graphics()
        self._inputs = Inputs(run)
        self._has_inputs = False

    def on_battery(self) -> bool | None:
        """Whether it lives on its battery; None: it has none."""
        return self._power.on_battery()

    def read(self, settings: PeerSettings, *, is_alone: bool) -> Reading:
        """What it is used for by others than us. ``is_alone``: nothing of ours was at work meanwhile."""
        import psutil

        from pairproxy.guest.processor import Processor

        if self._processor is None:
            self._processor = Processor(ports=self._ports)
        processor: float | None = None
        with contextlib.suppress(psutil.Error, OSError):  # what stays unread for long counts as used
            processor = self._processor.others(settings.idle_cpu)
        graphics = self._graphics.others(self._processor.ours, is_alone=is_alone)
        age_s = self._inputs.age_s()
        self._has_inputs = age_s is not None
        free: int | None = None
        with contextlib.suppress(psutil.Error, OSError):
            free = psutil.virtual_memory().available
        return Reading(processor, graphics, free, age_s)

    def unknown(self) -> tuple[str, ...]:
        """What cannot be read here; after the first read()."""
        missing = () if self._graphics.is_known else (GRAPHICS,)
        return missing if self._has_inputs else (*missing, INPUTS)

    def rest(self) -> None:
        """Nobody asks for a while: let go of what costs something, and of what will be too old."""
        self._graphics.close()
        if self._processor is not None:
            self._processor.forget()

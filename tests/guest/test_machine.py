"""This very machine."""

import sys
import time
from pathlib import Path

import psutil
import pytest

from pairproxy.config import PeerSettings
from pairproxy.guest.machine import GRAPHICS, INPUTS, Machine
from pairproxy.guest.processor import LEAST_WINDOW_S

DEADLINE_S = 30.0


@pytest.mark.slow
def test_what_can_be_read_here_is_read_and_the_rest_is_named() -> None:
    """The processor from the second look on, memory at once; keyboard and mouse where they are told."""
    machine = Machine(lambda: (), lambda argv: "")
    assert machine.on_battery() in (None, True, False)
    first = machine.read(PeerSettings(), is_alone=True)
    assert first.processor is None
    assert first.free_bytes is not None
    assert 0 < first.free_bytes < psutil.virtual_memory().total
    assert INPUTS in machine.unknown()
    assert (first.graphics is None) is (GRAPHICS in machine.unknown())
    end, part = time.monotonic() + DEADLINE_S, None
    while part is None:  # the machine that tests may be busy, or begin and end engines
        assert time.monotonic() < end
        time.sleep(LEAST_WINDOW_S)
        part = machine.read(PeerSettings(), is_alone=True).processor
    assert 0.0 <= part <= 1.0
    machine.rest()
    assert machine.read(PeerSettings(), is_alone=True).processor is None, "what was read before is too old"


@pytest.mark.skipif(sys.platform != "linux", reason="takes away the files that Linux tells it in")
def test_what_cannot_be_read_any_more_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks goes on looking, and slots are withheld after a while: a look that fails would end that."""
    machine = Machine(lambda: (), lambda argv: "")
    machine.read(PeerSettings(), is_alone=True)
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    time.sleep(LEAST_WINDOW_S)
    read = machine.read(PeerSettings(), is_alone=True)
    assert (read.processor, read.free_bytes) == (None, None)

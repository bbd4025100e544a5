import os
from pathlib import Path

import msgspec
import pytest

from pairproxy.api.client import DAEMON_FILE
from pairproxy.api.schema import DaemonFile
from pairproxy.doctor.examining import scene_of
from pairproxy.doctor.facts import Process, Unknown
from pairproxy.doctor.probes.asking import process_of, told
from tests.cli.test_status import dead_pid

FILE = DaemonFile(os.getpid(), "N" * 52, "gone", 9, None, {})


def test_without_a_daemon_there_is_nothing_to_tell(tmp_path: Path) -> None:
    """Of one that left its address behind the address is known."""
    scene = scene_of(tmp_path, {})
    assert told(scene).file is None
    assert told(scene).status == Unknown("no daemon runs here")
    (tmp_path / DAEMON_FILE).write_bytes(msgspec.json.encode(FILE))
    left = told(scene)
    assert left.file == FILE
    assert left.status == left.models == Unknown("the daemon does not answer")


def test_its_process_is_asked_of_the_system(tmp_path: Path) -> None:
    """How much it may open, and whether there is one at all, or a stranger that was given its number."""
    (tmp_path / DAEMON_FILE).write_bytes(msgspec.json.encode(FILE))
    found = process_of(tmp_path, FILE)
    if isinstance(found, Unknown):
        pytest.skip(found.why)
    assert (found.pid, found.is_alive, found.descriptors > 0) == (os.getpid(), True, True)
    dead = dead_pid()
    gone = msgspec.structs.replace(FILE, pid=dead)
    assert process_of(tmp_path, gone) == Process(dead, 0, is_alive=False)
    assert isinstance(process_of(tmp_path, None), Unknown)
    os.utime(tmp_path / DAEMON_FILE, (1e9, 1e9))  # long before this process began
    assert process_of(tmp_path, FILE) == Process(os.getpid(), 0, is_alive=False)

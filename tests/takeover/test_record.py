import json
import stat
from pathlib import Path

import msgspec
import pytest

from pairproxy.core.errors import StoreError
from pairproxy.takeover import record
from pairproxy.takeover.record import Record, Taken
from pairproxy.takeover.steps import Run, WaitForEngine

STEPS = (Run(("a",)), WaitForEngine("ollama", 11534))
TAKEN = Taken("ollama", 11434, 11534, "systemd", "ollama (pid 7)", STEPS, 1)


def test_it_comes_back_as_it_was(home: Path) -> None:
    """For its owner only."""
    record.write(home, Record((TAKEN,)))
    assert record.read(home) == Record((TAKEN,))
    assert stat.S_IMODE((home / record.RECORD_FILE).stat().st_mode) == 0o600


def test_one_of_nothing_is_no_file(home: Path) -> None:
    """A home that released everything looks as before."""
    record.write(home, Record((TAKEN,)))
    record.write(home, record.read(home).without("ollama"))
    assert record.read(home) == Record()
    assert list(home.iterdir()) == []


def test_engines_are_kept_apart(home: Path) -> None:
    """One of each kind."""
    other = msgspec.structs.replace(TAKEN, kind="lmstudio")
    kept = Record((TAKEN,)).with_(other).with_(msgspec.structs.replace(TAKEN, begun=2))
    assert {one.kind: one.begun for one in kept.taken} == {"ollama": 2, "lmstudio": 1}
    assert kept.of("lmstudio") == other
    assert kept.of("paced") is None


def test_what_it_does_not_know_is_not_guessed_at(home: Path) -> None:
    """A newer one, and one that is no record: nothing is changed, and it is said."""
    path = home / record.RECORD_FILE
    for text, why in (
        (json.dumps({"version": 2, "steps": "other"}), "newer pairproxy"),
        ("{", "cannot be read as an undo record"),
        ('{"taken": [{"kind": "ollama"}]}', "cannot be read as an undo record"),
    ):
        path.write_text(text)
        path.chmod(0o600)
        with pytest.raises(StoreError, match=why):
            record.read(home)
    path.chmod(0o644)
    with pytest.raises(StoreError, match="chmod 600"):
        record.read(home)


def test_only_one_moves_engines_at_a_time(home: Path) -> None:
    """The second is told at once."""
    refused = pytest.raises(StoreError, match="Another pairproxy is moving an engine")
    with record.alone(home), refused, record.alone(home):
        pass
    with record.alone(home):
        pass


def test_it_tells_whether_undoing_needs_root() -> None:
    """Only by what was begun."""
    steps = (Run(("a",)), Run(("b",), needs_root=True))
    assert not msgspec.structs.replace(TAKEN, steps=steps, begun=1).needs_root
    assert msgspec.structs.replace(TAKEN, steps=steps, begun=2).needs_root

from pathlib import Path

from pairproxy.doctor.examining import scene_of
from pairproxy.doctor.facts import Moved, Unknown
from pairproxy.doctor.probes.installing import moved, services
from pairproxy.takeover import record


def test_the_undo_record_tells_what_was_moved(tmp_path: Path) -> None:
    """Whole or half; one that cannot be read is said, and nothing is made by looking."""
    assert moved(tmp_path / "none") == ()
    assert not (tmp_path / "none").exists()
    home = tmp_path / "home"
    taken = record.Taken("ollama", 11434, 11534, "systemd", "ollama.service", (), is_done=True)
    record.write(home, record.Record((taken, record.Taken("lmstudio", 1234, 12340, "lms", "x", ()))))
    assert moved(home) == (Moved("ollama", 11434, 11534), Moved("lmstudio", 1234, 12340, is_whole=False))
    (home / record.RECORD_FILE).write_text("{")
    assert isinstance(moved(home), Unknown)


def test_a_machine_without_a_service_has_none(tmp_path: Path) -> None:
    """Looked for with no program of the system on PATH, in a home that is empty."""
    scene = scene_of(tmp_path, {"HOME": str(tmp_path), "PATH": "", "XDG_CONFIG_HOME": str(tmp_path)})
    found = services(scene)
    assert found == () or isinstance(found, Unknown)

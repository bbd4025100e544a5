from pathlib import Path

from pairproxy.doctor.examining import scene_of
from pairproxy.doctor.probes.surroundings import HERE, SESSION, surroundings


def test_this_environment_and_the_files_of_shells(tmp_path: Path) -> None:
    """Only variables that clients of engines obey, each with the place that sets it."""
    (tmp_path / ".zshrc").write_text("export OLLAMA_HOST=127.0.0.1:11534\nexport EDITOR=vi\n")
    told = surroundings(scene_of(tmp_path, {"HOME": str(tmp_path), "OPENAI_BASE_URL": "http://x", "A": "b"}))
    assert [(one.where, dict(one.variables)) for one in told] == [
        (HERE, {"OPENAI_BASE_URL": "http://x"}),
        (str(tmp_path / ".zshrc"), {"OLLAMA_HOST": "127.0.0.1:11534"}),
    ]
    assert surroundings(scene_of(tmp_path, {"HOME": str(tmp_path / "none")})) == ()


def test_the_session_of_macos_is_asked(tmp_path: Path) -> None:
    """What launchd gives to programs that no shell starts; what this shell has from it is told once."""
    launchctl = tmp_path / "launchctl"
    launchctl.write_text('#!/bin/sh\n[ "$2" = OLLAMA_HOST ] && echo 127.0.0.1:11534\nexit 0\n')
    launchctl.chmod(0o755)
    surrounded = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    told = surroundings(scene_of(tmp_path, surrounded), "darwin")
    assert [(one.where, dict(one.variables)) for one in told] == [
        (SESSION, {"OLLAMA_HOST": "127.0.0.1:11534"})
    ]
    with_it = scene_of(tmp_path, surrounded | {"OLLAMA_HOST": "127.0.0.1:11534"})
    assert [one.where for one in surroundings(with_it, "darwin")] == [HERE]
    assert surroundings(scene_of(tmp_path, {"HOME": str(tmp_path), "PATH": ""}), "darwin") == ()

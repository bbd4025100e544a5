from pathlib import Path

from pairproxy.doctor.examining import scene_of
from pairproxy.doctor.probes.surroundings import HERE, surroundings


def test_this_environment_and_the_files_of_shells(tmp_path: Path) -> None:
    """Only variables that clients of engines obey, each with the place that sets it."""
    (tmp_path / ".zshrc").write_text("export OLLAMA_HOST=127.0.0.1:11534\nexport EDITOR=vi\n")
    told = surroundings(scene_of(tmp_path, {"HOME": str(tmp_path), "OPENAI_BASE_URL": "http://x", "A": "b"}))
    assert [(one.where, dict(one.variables)) for one in told] == [
        (HERE, {"OPENAI_BASE_URL": "http://x"}),
        (str(tmp_path / ".zshrc"), {"OLLAMA_HOST": "127.0.0.1:11534"}),
    ]
    assert surroundings(scene_of(tmp_path, {"HOME": str(tmp_path / "none")})) == ()

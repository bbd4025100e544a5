from pathlib import Path

from pairproxy.doctor.examining import scene_of


def test_the_person_is_who_the_environment_says(tmp_path: Path) -> None:
    """HOME, and where there is none the system's own answer; commands get that environment, and never ask."""
    scene = scene_of(tmp_path / "x", {"HOME": str(tmp_path), "PATH": "/nowhere"})
    assert (scene.home, scene.person) == (tmp_path / "x", tmp_path)
    assert scene.runner.which("sh") is None
    assert scene_of(tmp_path, {}).person == Path.home()

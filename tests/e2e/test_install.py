"""What is installed from a wheel, as uv, pipx and pip do it: all that the source tree has."""

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_SHIPPED = ("__pycache__", ".pyc")


def run(argv: list[str], at: Path, **more: str) -> str:
    """A command, in a directory without the source, that has to end well; what it printed."""
    ended = subprocess.run(
        argv, cwd=at, env=os.environ | more, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this tree, with what builds where that is installed (CI), else pip fetches it.

    Not compiled, for that takes minutes: what a compiler adds is looked at in tests/test_hatch_build.py.
    """
    into = tmp_path_factory.mktemp("wheel")
    here = ["--no-build-isolation"] if find_spec("hatchling") else []
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *here,
         "--wheel-dir", str(into), str(ROOT)], into, PAIRPROXY_COMPILE="0")  # fmt: skip
    (built,) = into.glob("*.whl")
    return built


@pytest.mark.slow
def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    """The page, the units' templates and the published tables, too."""
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    here = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "pairproxy").rglob("*")
        if path.is_file() and not any(part in str(path) for part in NOT_SHIPPED)
    }
    assert here <= shipped


@pytest.mark.slow
def test_what_was_installed_runs_by_itself(wheel: Path, tmp_path: Path) -> None:
    """Its version and its settings, where the source is not."""
    into, home = tmp_path / "installed", tmp_path / "home"
    home.mkdir(mode=0o700)
    run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(into), str(wheel)],
        home,
    )
    found = run(
        [sys.executable, "-c", "import pairproxy; print(pairproxy.__file__)"], home, PYTHONPATH=str(into)
    )
    assert Path(found.strip()).is_relative_to(into)
    program = [sys.executable, "-m", "pairproxy"]
    version = run([*program, "--version"], home, PYTHONPATH=str(into), HOME=str(home))
    assert version.strip() == f"pairproxy {wheel.name.split('-')[1]}"
    shown = run([*program, "config", "path", "--home", str(home)], home, PYTHONPATH=str(into), HOME=str(home))
    assert str(home) in shown

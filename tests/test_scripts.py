"""The scripts as a stranger meets them: on a copy of the project, with a PATH of our choosing."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = ["bash", "cksum", "dirname", "env", "mkdir", "mv", "rm", "sed", "sleep", "sort", "tail", "tr"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what an install reads, without a .venv."""
    copy = tmp_path / "project"
    copy.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "requirements.lock", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("scripts", "pairproxy"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH with the few tools that the scripts may use, and no Python."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for tool in TOOLS:
        (directory / tool).symlink_to(shutil.which(tool) or pytest.skip(f"there is no {tool} here"))
    return directory


def add_python(path: Path, refuse: str = "") -> None:
    """Put the running interpreter on PATH as python3; one that fails when its program holds ``refuse``."""
    program = (
        f'#!/bin/sh\ncase "$*" in *"{refuse or "never asked"}"*) exit 1 ;; esac\nexec {sys.executable} "$@"\n'
    )
    (path / "python3").write_text(program)
    (path / "python3").chmod(0o755)


def environment(path: Path) -> dict[str, str]:
    """Ours, with another PATH, and neither CI nor a chosen interpreter."""
    return {**{k: v for k, v in os.environ.items() if k not in ("CI", "PYTHON")}, "PATH": str(path)}


def prepare(project: Path, path: Path, *extras: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/prepare to its end."""
    line = ["bash", str(project / "scripts" / "prepare"), *extras]
    return subprocess.run(line, env=environment(path), capture_output=True, text=True, timeout=240)


def test_no_python_is_one_sentence(project: Path, path: Path) -> None:
    """Without Python the answer is one sentence that says what to install, and exit status 1."""
    done = prepare(project, path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert not (project / ".venv").exists()


def test_a_python_below_a_name_with_a_space(project: Path, path: Path, tmp_path: Path) -> None:
    """PYTHON is one path, whatever is in it."""
    add_python(path, refuse="import venv")
    (tmp_path / "a b").mkdir()
    chosen = tmp_path / "a b" / "python3"
    (path / "python3").rename(chosen)
    line = ["bash", str(project / "scripts" / "prepare")]
    done = subprocess.run(
        line, env=environment(path) | {"PYTHON": str(chosen)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert f"{chosen} comes without venv" in done.stderr


@pytest.mark.slow
def test_the_line_with_the_cause_is_shown(project: Path, path: Path) -> None:
    """Without an index the advice is not about the network, and pip's own error stands above it."""
    add_python(path)
    line = ["bash", str(project / "scripts" / "prepare")]
    alone = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(path)}
    done = subprocess.run(line, env=environment(path) | alone, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert "ERROR: No matching distribution found" in done.stderr
    assert "PIP_NO_INDEX keeps pip" in done.stderr


def test_of_one_version_another_build_is_another_python(project: Path, path: Path) -> None:
    """A .venv that all is in is not taken for one of a faster build that PYTHON names."""
    add_python(path, refuse="import venv")
    sums = [
        subprocess.check_output(["cksum"], input=(project / name).read_bytes()).decode().strip()
        for name in ("pyproject.toml", "requirements.lock")
    ]
    key = f"root={project}\nci=\nproject={sums[0]}\nlock={sums[1]}\n"
    stamp = f"{key}python={platform.python_version()}\nextras=\n"
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "python").symlink_to(path / "python3")
    (project / ".venv" / "pairproxy.stamp").write_text(stamp)
    other = path / "other"
    program = f'case "$*" in *sys.version\\)*) echo ;; *) exec {path / "python3"} "$@" ;; esac'
    other.write_text(f"#!/bin/sh\n{program}\n")
    other.chmod(0o755)
    for chosen, is_ready in ((path / "python3", True), (other, False)):
        line = ["bash", str(project / "scripts" / "prepare")]
        known = environment(path) | {"PYTHON": str(chosen)}
        done = subprocess.run(line, env=known, capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) == is_ready, done.stderr


def test_an_old_python_is_no_python(project: Path, path: Path) -> None:
    """An interpreter older than 3.11 is passed over."""
    add_python(path, refuse="sys.version_info < (3, 11)")
    assert "found none" in prepare(project, path).stderr


def test_a_missing_venv_is_one_sentence(project: Path, path: Path) -> None:
    """A Python without venv, as Debian ships it, is one sentence that names the package to install."""
    add_python(path, refuse="import venv")
    done = prepare(project, path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert f"apt install python{sys.version_info.major}.{sys.version_info.minor}-venv" in done.stderr
    assert not (project / ".venv").exists()


@pytest.mark.slow
def test_a_failed_install_says_so_and_is_mended_by_the_next(project: Path, path: Path) -> None:
    """What cannot be installed ends with the cause, a sentence and no claim that .venv is ready."""
    add_python(path)
    text = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(text.replace('"aiohttp>=3.14.4,<4"', '"./nowhere"'))
    done = prepare(project, path)
    assert done.returncode == 1
    assert "start this again" in done.stderr
    assert not (project / ".venv" / "pairproxy.stamp").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_second_start_finds_all_ready(project: Path, path: Path) -> None:
    """The first start installs, the second only looks, and a further extra is added to what is there."""
    add_python(path)
    first_at = time.monotonic()
    assert prepare(project, path).returncode == 0
    second_at = time.monotonic()
    again = prepare(project, path)
    assert (again.returncode, again.stderr) == (0, "")
    assert time.monotonic() - second_at < (second_at - first_at) / 3  # measured: a few hundredths of a second
    assert prepare(project, path, "demo").returncode == 0
    assert (
        subprocess.run([project / ".venv/bin/python", "-c", "import ollama, pairproxy.config"]).returncode
        == 0
    )
    assert prepare(project, path).stderr == ""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_interrupted_start_is_mended(project: Path, path: Path) -> None:
    """A start that is ended while it makes .venv leaves nothing that the next one trips over."""
    add_python(path)
    line = ["bash", str(project / "scripts" / "prepare")]
    first = subprocess.Popen(line, env=environment(path), stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (project / ".venv" / "pyvenv.cfg").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert not (project / ".venv" / "pairproxy.stamp").exists()
    assert prepare(project, path).returncode == 0
    assert subprocess.run([project / ".venv/bin/python", "-c", "import pairproxy.config"]).returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_starts_at_once_install_once(project: Path, path: Path) -> None:
    """Of two starts at the same time one installs, the other waits and finds all ready."""
    add_python(path)
    line = ["bash", str(project / "scripts" / "prepare")]
    both = [
        subprocess.Popen(line, env=environment(path), stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    told = [start.communicate(timeout=400)[1] for start in both]
    assert [start.returncode for start in both] == [0, 0]
    assert sorted("Installing" in text for text in told) == [False, True]
    assert sorted("waiting for it" in text for text in told) == [False, True]

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pairproxy.cli.bench.overhead import compiling
from pairproxy.cli.bench.overhead.building import CannotBuild
from pairproxy.cli.bench.overhead.compiling import KEPT, compiled_package, digest, imported_from

STAND_IN = "import pathlib, sys, zipfile\nat = pathlib.Path(sys.argv[-1])\nat.mkdir(parents=True)\n"
BUILDS = (
    STAND_IN + "with zipfile.ZipFile(at / 'p.whl', 'w') as it: it.writestr('pairproxy/__init__.py', '')\n"
)
REFUSES = "import sys\nsys.exit('compiling failed: there is a reason')\n"


@pytest.fixture
def hatchling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is run in place of hatchling, which builds at once."""
    program = tmp_path / "programs" / "hatchling.py"
    program.parent.mkdir()
    program.write_text(BUILDS)
    monkeypatch.setenv("PYTHONPATH", str(program.parent))
    monkeypatch.setattr(compiling, "digest", lambda: "of-now")  # somebody may edit the sources meanwhile
    return program


def test_it_is_built_once(hatchling: Path, tmp_path: Path) -> None:
    """A second time what is there is taken, and nothing else lies there."""
    built = asyncio.run(compiled_package(tmp_path / "cache"))
    assert (built / "pairproxy" / "__init__.py").is_file()
    hatchling.write_text(REFUSES)
    assert asyncio.run(compiled_package(tmp_path / "cache")) == built
    assert sorted(path.name for path in built.parent.iterdir()) == [built.name, "compiled.lock"]


def test_other_sources_are_built_anew(
    hatchling: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last few stay, for another checkout may use them."""
    for number in range(KEPT + 2):
        monkeypatch.setattr(compiling, "digest", lambda number=number: str(number))
        asyncio.run(compiled_package(tmp_path / "cache"))
    assert len(list((tmp_path / "cache").glob("compiled-*"))) == KEPT


def test_why_it_cannot_be_built_is_told(hatchling: Path, tmp_path: Path) -> None:
    """In the words of what builds; the next try begins anew."""
    hatchling.write_text(REFUSES)
    with pytest.raises(CannotBuild, match="cannot be compiled: compiling failed: there is a reason"):
        asyncio.run(compiled_package(tmp_path / "cache"))
    hatchling.write_text(BUILDS)
    assert asyncio.run(compiled_package(tmp_path / "cache")).exists()


def test_what_was_edited_meanwhile_is_not_taken_for_what_was_asked(
    hatchling: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build takes a minute, and the sources go into the wheel at its end."""
    digests = iter(["before", "after", "after", "after"])
    monkeypatch.setattr(compiling, "digest", lambda: next(digests))
    with pytest.raises(CannotBuild, match="changed while they were compiled"):
        asyncio.run(compiled_package(tmp_path / "cache"))
    built = asyncio.run(compiled_package(tmp_path / "cache"))
    assert built.name == "compiled-after"
    assert [path.name for path in built.parent.glob("*compiled-*")] == [built.name], "no half is left"


def test_the_digest_is_of_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same twice; another with another compiler, or another Python of the same version."""
    before = digest()
    assert digest() == before
    monkeypatch.setattr(compiling, "_versions", lambda: ["mypy 99"])
    assert digest() != before
    monkeypatch.undo()
    monkeypatch.setenv("CC", "another")
    assert digest() != before
    monkeypatch.undo()
    monkeypatch.setattr(sys, "version", sys.version.replace("(", "(another build, "))
    assert digest() != before


def test_nothing_else_of_ours_is_imported(tmp_path: Path) -> None:
    """Not the checkout either, in which a program may be started."""
    (tmp_path / "pairproxy").mkdir()
    (tmp_path / "pairproxy" / "__init__.py").write_text("")
    told = subprocess.run(
        [sys.executable, "-c", "import pairproxy; print(pairproxy.__file__)"],
        cwd=Path(__file__).parents[4], env={**os.environ, **imported_from(tmp_path)},
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert Path(told.stdout.strip()).is_relative_to(tmp_path)

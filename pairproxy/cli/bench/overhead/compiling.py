"""This tree's package as a compiled wheel has it, built at first use.

python -m pairproxy.cli.bench.overhead.compiling DIRECTORY does that for scripts/test, and prints where it is.
"""

import asyncio
import hashlib
import importlib.metadata
import os
import shutil
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from pairproxy.cli.bench.overhead.building import CannotBuild
from pairproxy.cli.bench.overhead.processes import finished
from pairproxy.engines.file_lock import LockTimeout, file_lock

ROOT = Path(__file__).parents[4]
WHAT_BUILDS = ("hatch_build.py", "pyproject.toml")
COMPILE_S = 1200.0  # a minute and a half on two idle cores
KEPT = 3  # of 20 MB each: for another checkout, and the commit before


async def compiled_package(parent: Path) -> Path:
    """The directory to import it from, built below ``parent`` if need be. Raises CannotBuild."""
    made_of = digest()
    directory = parent / f"compiled-{made_of}"
    if directory.exists():
        os.utime(directory)  # those used longest ago are forgotten first
        return directory
    parent.mkdir(parents=True, exist_ok=True)
    try:
        async with file_lock(parent / "compiled.lock", timeout_s=COMPILE_S):
            if not directory.exists():
                await _build(directory, made_of)
                _forget_older(parent)
    except LockTimeout:
        raise CannotBuild("Somebody else compiles pairproxy and does not end.") from None
    return directory


def imported_from(directory: Path) -> Mapping[str, str]:
    """What the environment of a Python has to have, so that nothing else of ours is imported."""
    return {"PYTHONPATH": str(directory), "PYTHONSAFEPATH": "1"}


def digest() -> str:
    """Of all that is compiled, by what, and for which Python."""
    files = [
        path for path in sorted((ROOT / "pairproxy").rglob("*")) if path.is_file() and path.suffix != ".pyc"
    ]
    made_by = [sys.version, *(f"{name}={os.environ.get(name)}" for name in ("CC", "CFLAGS")), *_versions()]
    found = hashlib.sha256(" ".join(made_by).encode())
    for path in (*files, *(ROOT / name for name in WHAT_BUILDS)):
        found.update(f"{path.relative_to(ROOT)} {path.stat().st_size} ".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _versions() -> list[str]:
    """Of what is installed: compilers, and what they read types of."""
    return sorted(f"{one.name} {one.version}" for one in importlib.metadata.distributions())


async def _build(directory: Path, made_of: str) -> None:
    half_made = directory.with_name(f"half-{directory.name}")
    shutil.rmtree(half_made, ignore_errors=True)
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(half_made / "wheel"))
    environment = {**os.environ, "PAIRPROXY_COMPILE": "1"}
    try:
        status, told = await finished(command, COMPILE_S, ROOT, environment)
    except TimeoutError:
        raise CannotBuild(f"pairproxy is compiled for more than {COMPILE_S:.0f} s.") from None
    if status:
        lines = told.splitlines()
        raise CannotBuild(f"pairproxy cannot be compiled: {lines[-1] if lines else 'nothing was said'}")
    if digest() != made_of:
        raise CannotBuild("The sources were changed while they were compiled. Start this again.")
    (wheel,) = (half_made / "wheel").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(half_made)
    shutil.rmtree(half_made / "wheel")
    half_made.rename(directory)


def _forget_older(parent: Path) -> None:
    for path in parent.glob("half-compiled-*"):  # nobody else compiles now: of a build that was ended
        shutil.rmtree(path, ignore_errors=True)
    found = sorted(parent.glob("compiled-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    try:
        print(asyncio.run(compiled_package(Path(sys.argv[1]).resolve())))
    except CannotBuild as error:
        sys.exit(str(error))

"""Other routers, each in an environment of its own with every version pinned (routers/NAME.txt)."""

import asyncio
import hashlib
import shutil
import sys
from pathlib import Path

from pairproxy.cli.bench.overhead.processes import finished
from pairproxy.engines.file_lock import LockTimeout, file_lock

PINNED = Path(__file__).parent / "routers"
INSTALL_S = 600.0  # LiteLLM brings a hundred packages: two minutes on a busy machine
LINES_TOLD = 2  # of pip's last words


class CannotInstall(Exception):
    """An environment cannot be had; its text says why."""


async def environment(name: str, cache: Path) -> Path:
    """The directory of its programs, installed if need be. Raises CannotInstall."""
    pins = PINNED / f"{name}.txt"
    made_by = f"{sys.version} {sys.base_prefix}"  # it is links to there
    key = hashlib.sha256(made_by.encode() + pins.read_bytes()).hexdigest()
    parent = cache / "bench"
    parent.mkdir(parents=True, exist_ok=True)
    directory = parent / f"router-{name}"
    stamp = directory / "pairproxy.stamp"
    try:
        async with file_lock(parent / f"{name}.lock", timeout_s=INSTALL_S):
            if not (stamp.is_file() and stamp.read_text() == key):
                await _install(directory, pins)
                stamp.write_text(key)  # last: without it, it is half made
    except LockTimeout:
        raise CannotInstall(f"somebody else installs {name} and does not end") from None
    return directory / "bin"


async def _install(directory: Path, pins: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
    await _run(sys.executable, "-m", "venv", str(directory))
    python = str(directory / "bin" / "python")
    options = ("--disable-pip-version-check", "--only-binary", ":all:", "--no-deps", "-r", str(pins))
    await _run(python, "-m", "pip", "install", "--quiet", *options)
    await _run(python, "-m", "pip", "check")  # pins of one Python may lack what another needs


async def _run(*command: str) -> None:
    try:
        status, told = await finished(command, INSTALL_S)
    except TimeoutError:
        raise CannotInstall(f"it took more than {INSTALL_S:.0f} s") from None
    if status:
        raise CannotInstall(" / ".join(told.splitlines()[-LINES_TOLD:]))

"""Where the official clients are installed: environments of their own, outside of ours.

`python -m tests.clients.environments` (scripts/prepare-clients) makes them from pinned files: one for Python,
checked by hashes, and one for Node. Each is made once into .clients/ of the checkout (PAIRPROXY_CLIENTS puts
them elsewhere) and stamped with what it was made from; a start with nothing to do takes milliseconds.
"""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from pairproxy.engines.file_lock import LockTimeout, file_lock

HERE = Path(__file__).parent
DRIVERS = HERE / "drivers"
CACHE = Path(os.environ.get("PAIRPROXY_CLIENTS") or HERE.parent.parent / ".clients")
"""Read at import: the tests hide PAIRPROXY_* from what they start."""

INSTALL_S = 300.0  # promised for the whole; measured: 25 s with pip, 6 s with npm
OLDEST_NODE = 18  # what the packages of package.json ask for
LINES_TOLD = 5  # of a failed installer's last words


class CannotPrepare(Exception):
    """An environment cannot be had; its text says which and why."""


def python() -> Path:
    """The interpreter that has the Python clients, installed if need be. Raises CannotPrepare."""
    lock = HERE / "requirements.lock"
    directory = CACHE / "python"
    bin_directory = directory / ("Scripts" if sys.platform == "win32" else "bin")
    interpreter = bin_directory / "python"
    uv = shutil.which("uv")
    if uv:
        install = [uv, "pip", "install", "--python", str(interpreter)]
        lines = [[uv, "venv", "--python", sys.executable, str(directory)]]
    else:
        install = [str(interpreter), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
        lines = [[sys.executable, "-m", "venv", str(directory)]]
    lines.append([*install, "--only-binary", ":all:", "--require-hashes", "-r", str(lock)])
    _made(directory, [lock], f"python {sys.version_info[:3]}", lines)
    return interpreter


def node() -> Path:
    """The directory with the npm clients and the drivers, made if need be. Raises CannotPrepare.

    The drivers are copied because Node looks for packages beside the file that imports them.
    """
    version = _node_version()
    directory = CACHE / "node"
    pinned = [HERE / "package.json", HERE / "package-lock.json"]
    install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(directory)]
    _made(directory, pinned, f"node {version}", [install], copied=pinned)
    for driver in DRIVERS.glob("*.mjs"):
        shutil.copy(driver, directory)
    return directory


def _node_version() -> str:
    if not shutil.which("node") or not shutil.which("npm"):
        raise CannotPrepare("the npm clients need node and npm on PATH")
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=30).stdout.strip()
    major = said.removeprefix("v").partition(".")[0]
    if not major.isdigit() or int(major) < OLDEST_NODE:
        raise CannotPrepare(f"the npm clients need node {OLDEST_NODE} or newer, and this is {said or 'none'}")
    return said


def _made(
    directory: Path,
    pinned: list[Path],
    made_by: str,
    lines: list[list[str]],
    copied: list[Path] | None = None,
) -> None:
    """Run ``lines`` into an empty ``directory`` unless its stamp says that this was done."""
    digest = hashlib.sha256(made_by.encode() + b"".join(path.read_bytes() for path in pinned)).hexdigest()
    stamp = directory / "pairproxy.stamp"
    if _is_stamped(stamp, digest):
        return

    async def make() -> None:
        async with file_lock(CACHE / f"{directory.name}.lock", timeout_s=INSTALL_S):
            if _is_stamped(stamp, digest):
                return
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            for path in copied or []:
                shutil.copy(path, directory)
            for line in lines:
                await asyncio.to_thread(_run, directory.name, line)
            stamp.write_text(digest)

    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(make())
    except LockTimeout:
        raise CannotPrepare(f"somebody else prepares {directory} and does not end") from None


def _is_stamped(stamp: Path, digest: str) -> bool:
    return stamp.is_file() and stamp.read_text() == digest


def _run(name: str, line: list[str]) -> None:
    try:
        done = subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_S
        )
    except subprocess.TimeoutExpired:
        raise CannotPrepare(f"installing the {name} clients took more than {INSTALL_S:.0f} s") from None
    if done.returncode:
        last = " / ".join((done.stdout + done.stderr).strip().splitlines()[-LINES_TOLD:])
        raise CannotPrepare(f"the {name} clients cannot be installed: {last}")


def main() -> int:
    """Prepare both and say how long it took; the exit status is the number of environments that failed."""
    failed = 0
    for prepare in (python, node):
        began = time.monotonic()
        try:
            prepare()
        except CannotPrepare as error:
            failed += 1
            told = f"not there: {error}"
        else:
            told = f"ready after {time.monotonic() - began:.1f} s"
        print(f"Official clients for {prepare.__name__}: {told}", file=sys.stderr)  # noqa: T201
    return failed


if __name__ == "__main__":
    sys.exit(main())

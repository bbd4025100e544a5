"""Upstream and load generator in C, compiled at first use into the cache of this machine."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pairproxy.cli.bench.overhead.processes import finished

NATIVE = Path(__file__).parent.parent / "native"
COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-O2", "-Wall")
COMPILE_S = 60.0  # half a second here


class CannotBuild(Exception):
    """The programs cannot be had; its text says what to install."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the compiled programs are."""

    upstream: Path
    generator: Path


async def build(cache: Path) -> Programs:
    """Both programs, compiled if these sources were not yet. Raises CannotBuild."""
    directory = cache / "bench" / f"native-{_digest()}"
    directory.mkdir(parents=True, exist_ok=True)
    upstream = await _compiled("fast_upstream", directory)
    return Programs(upstream, await _compiled("load_generator", directory))


def _digest() -> str:
    """Of all sources and how they are compiled."""
    content = b"".join(path.read_bytes() for path in sorted(NATIVE.glob("*.[ch]")))
    return hashlib.sha256(" ".join(OPTIONS).encode() + content).hexdigest()[:16]


async def _compiled(name: str, directory: Path) -> Path:
    program = directory / name
    if program.exists():
        return program
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise CannotBuild("There is no C compiler: install one (Debian: `apt install gcc libc6-dev`).")
    half_made = directory / f"{name}.{os.getpid()}"  # two may compile at once; the last one to end wins
    command = (compiler, *OPTIONS, "-o", str(half_made), str(NATIVE / f"{name}.c"))
    try:
        status, told = await finished(command, COMPILE_S)
    except TimeoutError:
        raise CannotBuild(f"{name}.c is compiled for more than {COMPILE_S:.0f} s.") from None
    if status:
        raise CannotBuild(f"{name}.c does not compile here: {told}")
    half_made.rename(program)
    return program

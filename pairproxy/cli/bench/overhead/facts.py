"""Which machine it was, and which versions stood there."""

import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pairproxy import __version__
from pairproxy.doctor.probes.python_build import python_build

ASK_S = 5.0  # a program's version
PROGRAMS = {"nginx": ("-v",), "haproxy": ("-v",), "cc": ("--version",)}
PACKAGES = ("aiohttp", "httptools", "uvloop")
VERSION = re.compile(r"\d+(\.\d+)+")


def facts() -> dict[str, str | int | float]:
    """Facts of this machine, by name."""
    found: dict[str, str | int | float] = {
        "cores": os.cpu_count() or 1,
        "cpu": _cpu(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "pairproxy": __version__,
        "load": round(os.getloadavg()[0], 2),
        "arguments": " ".join(sys.argv[1:]),
    }
    if (build := python_build()) != "unknown":
        found["python_build"] = build
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    for program, arguments in PROGRAMS.items():
        if told := _version(program, arguments):
            found[program] = told
    return found


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(program: str, arguments: tuple[str, ...]) -> str:
    if not shutil.which(program):
        return ""
    done = subprocess.run([program, *arguments], check=False, capture_output=True, text=True, timeout=ASK_S)
    found = VERSION.search(done.stdout + done.stderr)
    return found[0] if found else ""

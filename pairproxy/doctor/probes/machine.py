"""This Python, and whether the fast parts that pairproxy counts on are there."""

import platform
import sys
from pathlib import Path

import pairproxy
from pairproxy.doctor.facts import Machine
from pairproxy.doctor.probes.python_build import python_build

KERNEL = Path("/proc/version")
BESIDE_SOURCES = "pyproject.toml"  # no wheel puts it beside the package


def machine(kernel: Path = KERNEL) -> Machine:
    """Imports what the daemon would import: half a second at worst."""
    return Machine(
        python=platform.python_version(),
        system=sys.platform,
        has_fast_loop=sys.platform == "win32" or _imports("uvloop"),
        has_fast_parser=_has_fast_parser(),
        is_wsl=_is_wsl(kernel),
        python_build=python_build(),
        is_compiled=pairproxy.is_compiled(),
        is_checkout=(Path(pairproxy.__file__).parents[1] / BESIDE_SOURCES).exists(),
    )


def _imports(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def _has_fast_parser() -> bool:
    """Whether aiohttp reads requests by its compiled parser."""
    from aiohttp import http_parser

    return http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy


def _is_wsl(kernel: Path) -> bool:
    try:
        return "microsoft" in kernel.read_text(errors="replace").lower()
    except OSError:
        return False

"""Versions of engines with holes that are public: which, and what somebody can do by them.

Source: the CVE records; docs/doctor.md lists them. Only what an engine tells of its version is compared.
"""

import re
from typing import NamedTuple


class Hole(NamedTuple):
    """A hole in the versions from ``since`` (included; "": all) to ``mended`` (not included)."""

    cve: str
    kind: str
    since: str
    mended: str
    what: str


HOLES = (
    Hole("CVE-2026-103663", "ollama", "0.34.2", "0.35.0", "a model that is pulled can write any file"),
    Hole("CVE-2026-7482", "ollama", "", "0.17.1", "whoever reaches it reads its memory, prompts included"),
    Hole("CVE-2024-45436", "ollama", "", "0.1.47", "a model made from an archive can write any file"),
    Hole("CVE-2024-37032", "ollama", "", "0.1.34", "a model that is pulled can write any file and run code"),
    Hole("CVE-2024-28224", "ollama", "", "0.1.29", "any page in a browser can use it"),
    Hole("CVE-2025-32444", "openai", "0.6.5", "0.8.5", "vLLM with Mooncake lets who reaches it run code"),
    Hole(
        "CVE-2025-30202", "openai", "0.5.2", "0.8.5", "vLLM on several hosts gives its data to who connects"
    ),
)
UPDATE = {
    "ollama": "Update Ollama: on Linux `curl -fsSL https://ollama.com/install.sh | sh`, elsewhere by its app",
    "openai": "Update vLLM: `pip install --upgrade vllm`",
}
_NUMBERS = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(.*)", re.DOTALL)
_FINAL, _BEFORE = 1, 0


def holes_of(kind: str, version: str) -> tuple[Hole, ...]:
    """The known holes of an engine; () for a version that cannot be read, or a kind that none is known of."""
    told = _key(version)
    if told is None:
        return ()
    return tuple(
        hole
        for hole in HOLES
        if hole.kind == kind and (_key(hole.since) or told) <= told < (_key(hole.mended) or told)
    )


def _key(version: str) -> tuple[int, int, int, int] | None:
    """To compare by; what comes before a release (0.35.0-rc1) counts as older than it."""
    found = _NUMBERS.fullmatch(version.strip())
    if found is None:
        return None
    major, minor, patch, rest = found.groups()
    is_before = re.match(r"[-.]?(a|b|rc|alpha|beta|pre|dev)", rest) is not None
    return int(major), int(minor), int(patch or 0), _BEFORE if is_before else _FINAL

import re
from pathlib import Path

import pytest

from pairproxy.doctor.holes import HOLES, UPDATE, holes_of


@pytest.mark.parametrize(
    ("kind", "version", "cves"),
    [
        ("ollama", "0.34.1", []),
        ("ollama", "0.34.2", ["CVE-2026-103663"]),
        ("ollama", "v0.34.9", ["CVE-2026-103663"]),
        ("ollama", "0.35.0-rc1", ["CVE-2026-103663"]),
        ("ollama", "0.35.0", []),
        ("ollama", "0.35", []),
        ("ollama", "0.17.0", ["CVE-2026-7482"]),
        ("ollama", "0.1.46", ["CVE-2026-7482", "CVE-2024-45436"]),
        ("ollama", "0.1.20", ["CVE-2026-7482", "CVE-2024-45436", "CVE-2024-37032", "CVE-2024-28224"]),
        ("openai", "0.8.4", ["CVE-2025-32444", "CVE-2025-30202"]),
        ("openai", "0.8.5", []),
        ("llamacpp", "0.1.0", []),
        ("ollama", "", []),
        ("ollama", "of my own making", []),
        ("ollama", "9" * 400 + ".1", []),
    ],
)
def test_a_version_has_the_holes_of_its_range(kind: str, version: str, cves: list[str]) -> None:
    """From the first that has it to the one before it is mended; what cannot be read has none."""
    assert [hole.cve for hole in holes_of(kind, version)] == cves


def test_each_hole_ends_after_it_begins_and_can_be_mended() -> None:
    """A range that is empty would warn of nothing."""
    for hole in HOLES:
        assert hole in holes_of(hole.kind, hole.since or "0.0.1")
        assert hole not in holes_of(hole.kind, hole.mended)
        assert hole.kind in UPDATE


def test_every_hole_stands_in_the_documentation() -> None:
    """docs/doctor.md has each with its range, in this order, and no other."""
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    told = re.findall(
        r"^\| \w+ \| (?:from ([0-9.]+) to )?before ([0-9.]+) \| (CVE-[0-9-]+) \|", page, re.MULTILINE
    )
    assert told == [(hole.since, hole.mended, hole.cve) for hole in HOLES]

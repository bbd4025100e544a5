"""The page on compatibility, and the files that pin the clients."""

import json
import re

from tests.clients import compatibility
from tests.clients.environments import HERE


def test_the_page_tells_of_each_client_and_its_version() -> None:
    """docs/compatibility.md holds the table that the drivers and pinned files make."""
    page = compatibility.PAGE.read_text(encoding="utf-8")
    assert compatibility.table() in page, "run python -m tests.clients.compatibility"


def test_the_pinned_files_name_no_place() -> None:
    """Neither lock says where a package comes from, so they fit wherever the same files are served."""
    lock = json.loads((HERE / "package-lock.json").read_text())
    packages = [one for name, one in lock["packages"].items() if name]
    assert packages
    assert not [one for one in packages if "resolved" in one or "integrity" not in one]
    assert "://" not in (HERE / "requirements.lock").read_text()


def test_each_requirement_has_hashes_and_is_what_was_asked_for() -> None:
    """The lock holds every direct requirement in its version, and a hash for every package."""
    text = (HERE / "requirements.lock").read_text()
    entries = re.findall(r"^([\w.-]+)==\S+.*?\\\n(    --hash=sha256:[0-9a-f]{64})", text, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^[\w.-]+==", text, re.MULTILINE))
    asked = re.findall(r"^([\w-]+)(?:\[\w+\])?==(\S+)$", (HERE / "requirements.in").read_text(), re.MULTILINE)
    pinned = compatibility.versions()
    assert asked == [(name, pinned[name]) for name, _ in asked]
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]
    locked = json.loads((HERE / "package-lock.json").read_text())["packages"]
    assert wanted == {name: locked[f"node_modules/{name}"]["version"] for name in wanted}

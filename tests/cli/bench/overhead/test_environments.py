import asyncio
import re
import sys
from pathlib import Path

import pytest

from pairproxy.cli.bench.overhead import environments
from pairproxy.cli.bench.overhead.environments import PINNED, CannotInstall, environment
from pairproxy.cli.bench.overhead.routers import ROUTERS


@pytest.mark.parametrize("name", ["py-spy", *(target.name for target in ROUTERS)])
def test_every_version_is_pinned(name: str) -> None:
    """Each line is a package and its exact version, and the router is among them."""
    lines = (PINNED / f"{name}.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.+]+", line) for line in lines)
    assert any(line.startswith(f"{name}==") for line in lines)


@pytest.mark.slow
def test_it_is_installed_once_for_its_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And by one Python: an empty list is quickly installed; what is there already is left alone."""
    monkeypatch.setattr(environments, "PINNED", tmp_path)
    pins = tmp_path / "nothing.txt"
    pins.write_text("")
    programs = asyncio.run(environment("nothing", tmp_path))
    (programs / "mark").touch()
    asyncio.run(environment("nothing", tmp_path))
    assert (programs / "mark").exists()
    pins.write_text("# other pins\n")
    asyncio.run(environment("nothing", tmp_path))
    assert not (programs / "mark").exists()
    (programs / "mark").touch()
    monkeypatch.setattr(sys, "version", sys.version.replace("(", "(another build, "))
    asyncio.run(environment("nothing", tmp_path))
    assert not (programs / "mark").exists()


@pytest.mark.slow
def test_what_cannot_be_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pip's last words."""
    monkeypatch.setattr(environments, "PINNED", tmp_path)
    (tmp_path / "broken.txt").write_text("no version at all ==\n")
    with pytest.raises(CannotInstall, match=r"(?i)invalid requirement"):
        asyncio.run(environment("broken", tmp_path))


@pytest.mark.slow
def test_pins_that_lack_something_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of LiteLLM did on Python 3.11.2: it was installed, and did not start."""
    monkeypatch.setattr(environments, "PINNED", tmp_path)
    (tmp_path / "half.txt").write_text("aiosignal==1.4.0\n")
    with pytest.raises(CannotInstall, match="requires frozenlist, which is not installed"):
        asyncio.run(environment("half", tmp_path))

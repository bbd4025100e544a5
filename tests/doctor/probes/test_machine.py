import platform
from pathlib import Path

import pytest

import pairproxy
from pairproxy.doctor.probes.machine import machine
from pairproxy.doctor.probes.python_build import python_build


def test_it_tells_of_this_python() -> None:
    """The tests run with the compiled parts."""
    found = machine()
    assert found.python == platform.python_version()
    assert found.has_fast_parser
    assert found.has_fast_loop
    assert (found.is_compiled, found.python_build) == (pairproxy.is_compiled(), python_build())


def test_a_checkout_has_what_it_is_made_by_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a wheel put there has not."""
    package = tmp_path / "pairproxy" / "__init__.py"
    monkeypatch.setattr(pairproxy, "__file__", str(package))
    assert not machine().is_checkout
    (tmp_path / "pyproject.toml").touch()
    assert machine().is_checkout


def test_linux_inside_windows_is_told_by_its_kernel(tmp_path: Path) -> None:
    """By its name; where there is no such file it is another system."""
    kernel = tmp_path / "version"
    kernel.write_text("Linux version 5.15.153.1-microsoft-standard-WSL2")
    assert machine(kernel).is_wsl
    kernel.write_text("Linux version 6.1.0-debian")
    assert not machine(kernel).is_wsl
    assert not machine(tmp_path / "none").is_wsl

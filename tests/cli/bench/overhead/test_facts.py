import os

import pytest

from pairproxy import __version__
from pairproxy.cli.bench.overhead import facts as module
from pairproxy.cli.bench.overhead.facts import facts


def test_a_machine_is_told_with_its_versions() -> None:
    """Cores, kernel, and what stands there."""
    found = facts()
    assert (found["cores"], found["kernel"], found["pairproxy"]) == (
        os.cpu_count(),
        os.uname().release,
        __version__,
    )
    assert {"python", "aiohttp", "cpu", "load"} <= found.keys()


def test_how_python_was_built_is_told_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is worth a quarter of the processor time."""
    monkeypatch.setattr(module, "python_build", lambda: "not optimised")
    assert facts()["python_build"] == "not optimised"
    monkeypatch.setattr(module, "python_build", lambda: "unknown")
    assert "python_build" not in facts()

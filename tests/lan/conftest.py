"""What the tests on a LAN share: whether there can be one, daemons in its hosts, the table of figures."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.lan import PRELOADED, Nursery, is_capable, missing
from tests.support.lan_nodes import LanDaemons

FIGURES = pytest.StashKey[list["Figure"]]()
Network = Callable[..., LanDaemons]
"""Takes the names of the hosts, and options of Lan."""


@dataclass(frozen=True)
class Figure:
    """One line of the table. ``lost`` counts requests that failed before their first byte."""

    what: str
    asked: int
    whole: int
    broken: int
    lost: int
    noticed_s: float | None


@pytest.fixture(autouse=True)
def _possible() -> None:
    """Skip where there can be no LAN; in CI only where the kernel is why, for programs can be installed."""
    if reason := missing():
        if may_be_skipped(os.environ, is_capable()):
            pytest.skip(reason)
        pytest.fail(f"In CI this must not be skipped: {reason}.")


def may_be_skipped(environment: Mapping[str, str], kernel_is_capable: bool) -> bool:
    """Whether it is no fault that there can be no LAN."""
    return environment.get("CI") != "true" or not kernel_is_capable


@pytest.fixture(scope="package")
def nursery() -> Iterator[Nursery]:
    """One for all tests here: pairproxy is imported once."""
    with Nursery(*PRELOADED) as started:
        yield started


@pytest.fixture
def network(tmp_path: Path, nursery: Nursery) -> Iterator[Network]:
    """Makes a LAN with daemons, which are stopped and looked at after the test."""
    with ExitStack() as stack:

        def make(*names: str, **options: Any) -> LanDaemons:
            return stack.enter_context(LanDaemons(tmp_path, names, nursery=nursery, **options))

        yield make


@pytest.fixture
def told(pytestconfig: pytest.Config) -> Callable[[Figure], None]:
    """Adds a line to the table at the end of the session."""
    return pytestconfig.stash.setdefault(FIGURES, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what clients saw, what was lost, and how long it took until it was noticed."""
    figures = config.stash.get(FIGURES, [])
    if not figures:
        return
    terminalreporter.section("the LAN: what clients saw")
    terminalreporter.write_line(f"{'asked':>5} {'whole':>5} {'broken':>6} {'lost':>4} {'noticed':>8}  what")
    for one in figures:
        noticed = "" if one.noticed_s is None else f"{one.noticed_s:.2f} s"
        terminalreporter.write_line(
            f"{one.asked:>5} {one.whole:>5} {one.broken:>6} {one.lost:>4} {noticed:>8}  {one.what}"
        )

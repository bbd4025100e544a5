"""What the tests on a LAN share: whether there can be one, daemons in its hosts, the table of figures."""

import inspect
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.lan import PRELOADED, Nursery, is_capable, missing
from tests.support.lan_nodes import LanDaemons, LanNode, lan_settings

FIGURES = pytest.StashKey[list["Figure"]]()
AHEAD = pytest.StashKey["Ahead"]()
Network = Callable[..., LanDaemons]
"""Takes the names of the hosts, and options of Lan."""
Told = Callable[["Figure"], None]
FAST_S = 0.3  # heartbeat: lost after 1.5 s
AT_ONCE = 2  # tests, of three daemons each: two cores do them without haste


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
        yield maker(stack, tmp_path, nursery)


def maker(stack: ExitStack, directory: Path, nursery: Nursery) -> Network:
    """What ``network`` is: makes LANs that end with ``stack``."""

    def make(*names: str, **options: Any) -> LanDaemons:
        return stack.enter_context(LanDaemons(directory, names, nursery=nursery, **options))

    return make


def couple(
    network: Network, *names: str, text: str = "", **options: bool
) -> tuple[LanDaemons, list[LanNode]]:
    """Two paired nodes (or those of these names) on a LAN with these settings, started and connected."""
    daemons = prepared(network, *names, text=text, **options)
    nodes = daemons.begin(*(names or ("anna", "ben")))
    daemons.until_connected()
    return daemons, nodes


def prepared(network: Network, *names: str, text: str = "", **options: bool) -> LanDaemons:
    """The same, not started."""
    names = names or ("anna", "ben")
    daemons = network(*names, **options)
    for name in names:
        daemons.home(name, text or lan_settings(heartbeat_s=FAST_S))
    daemons.pair(*names)
    return daemons


@pytest.fixture
def told(pytestconfig: pytest.Config) -> Told:
    """Adds a line to the table at the end of the session."""
    return pytestconfig.stash.setdefault(FIGURES, []).append


class Ahead:
    """Runs the slow tests with a LAN in threads, AT_ONCE at a time: they wait for most of their time.

    Each is reported at its own place, with its own outcome, when its turn comes.
    """

    def __init__(self, items: Sequence[pytest.Item], nursery: Nursery, directory: Path, told: Told) -> None:
        self._nursery = nursery
        self._directory = directory
        self._told = told
        self._pool = ThreadPoolExecutor(AT_ONCE, "LAN")
        self._results = {
            item.nodeid: self._pool.submit(self._run, item)
            for item in items
            if isinstance(item, pytest.Function)
        }

    def result_of(self, item: pytest.Function) -> None:
        """Wait for a test; raises what it raised."""
        self._results[item.nodeid].result()

    def stop(self) -> None:
        """Begin no more; returns when those under way have ended."""
        self._pool.shutdown(cancel_futures=True)

    def _run(self, item: pytest.Function) -> None:
        directory = Path(tempfile.mkdtemp(dir=self._directory))
        given: dict[str, object] = {"tmp_path": directory, "told": self._told}
        if hasattr(item, "callspec"):
            given |= item.callspec.params
        with ExitStack() as stack:
            given["network"] = maker(stack, directory, self._nursery)
            item.obj(**{name: given[name] for name in inspect.signature(item.obj).parameters})


@pytest.fixture(scope="package")
def ahead(
    request: pytest.FixtureRequest, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ahead]:
    """The slow tests with a LAN, under way from the first one on."""
    items = [one for one in request.session.items if is_slow_lan(one)]
    told = request.config.stash.setdefault(FIGURES, []).append
    started = Ahead(items, nursery, tmp_path_factory.mktemp("lan"), told)
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def _under_way(request: pytest.FixtureRequest) -> None:
    """Begin with the slow tests when the first of them has its turn."""
    if is_slow_lan(request.node):
        request.node.stash[AHEAD] = request.getfixturevalue("ahead")


def is_slow_lan(item: pytest.Item) -> bool:
    """Whether it is one of those that wait for most of their time."""
    return "network" in getattr(item, "fixturenames", ()) and item.get_closest_marker("slow") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Wait for a test that runs in a thread instead of calling it."""
    ahead = pyfuncitem.stash.get(AHEAD, None)
    if ahead is None:
        return None
    ahead.result_of(pyfuncitem)
    return True


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

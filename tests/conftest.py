"""What all tests share: two tiers, patience with hypothesis, a loud count of what was skipped, a home."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import pairproxy
from pairproxy import is_compiled
from tests.support import h11_oracle, standing_still
from tests.support.systemd_lab import SystemdLab, may_be_skipped, missing

# A busy machine is no fault of an example: what hangs is found by the limit in seconds that every test has.
settings.register_profile(
    "pairproxy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("pairproxy")

PLAYED_AGAIN = pytest.StashKey[Counter[str]]()
LEFT_OUT = pytest.StashKey[int]()
SLOW_S = 300.0  # limit of a slow test: the longest takes forty on an idle machine, and CI is seldom one


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --all, which runs the slow tier too."""
    parser.addoption("--all", action="store_true", default=False, help="run the slow tests too")
    parser.addoption("--compiled", action="store_true", default=False, help="fail unless it is compiled")


def pytest_configure(config: pytest.Config) -> None:
    """What is believed to be tested is what is imported."""
    if config.getoption("--compiled") and not is_compiled():
        raise pytest.UsageError(f"--compiled: {pairproxy.__file__} is not compiled")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests out unless --all is given; then they have more time than the others.

    Tests of what only the sources have are skipped where the package is compiled.
    """
    if is_compiled():
        for item in items:
            if item.get_closest_marker("pure"):
                item.add_marker(pytest.mark.skip(reason="looks into what the compiled package has no more"))
    slow = [item for item in items if item.get_closest_marker("slow")]
    if config.getoption("--all"):
        for item in slow:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SLOW_S))
        return
    items[:] = [item for item in items if not item.get_closest_marker("slow")]
    config.stash[LEFT_OUT] = len(slow)
    config.hook.pytest_deselected(items=slow)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Play a test that is marked as timed again where the machine stood still; what it needs it makes."""
    if pyfuncitem.get_closest_marker("timed") is None:
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    def clear() -> None:
        again = pyfuncitem.config.stash.setdefault(PLAYED_AGAIN, Counter())
        again[pyfuncitem.nodeid] += 1
        h11_oracle.EXCHANGES.clear()
        if isinstance(log := given.get("caplog"), pytest.LogCaptureFixture):
            log.clear()

    standing_still.played(lambda: pyfuncitem.obj(**given), clear)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many checks were skipped and why, and how many were left for --all; also when it is none."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    told = "".join(f"\n  {count} x {reason}" for reason, count in sorted(reasons.items()))
    terminalreporter.write_line(f"SKIPPED {reasons.total()} checks{':' if told else ''}{told}")
    again = config.stash.get(PLAYED_AGAIN, Counter())
    if again:
        told = "".join(f"\n  {count} x {test}" for test, count in sorted(again.items()))
        terminalreporter.write_line(f"PLAYED AGAIN, for the machine stood still: {again.total()}:{told}")
    if not config.getoption("--all"):
        terminalreporter.write_line(f"LEFT for --all: {config.stash.get(LEFT_OUT, 0)} slow checks")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


@pytest.fixture(scope="session", autouse=True)
def _own_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the person's own settings and home out of the tests; fetched models stay shared.

    Whatever starts the tests in the background may have them ignore Ctrl-C or SIGHUP, and so every program
    that they start; a handler of theirs is not inherited, and nohup still protects them.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hang_up = getattr(signal, "SIGHUP", None)
    if hang_up is not None and signal.getsignal(hang_up) == signal.SIG_IGN:
        signal.signal(hang_up, lambda *_: None)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PAIRPROXY_")]:
            if name != "PAIRPROXY_CACHE":
                patch.delenv(name)
        patch.setenv("PAIRPROXY_HOME", str(tmp_path_factory.mktemp("no-home")))
        yield


@pytest.fixture(autouse=True)
def _judged_by_h11(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every answer that a raw client got in a test is one that h11 accepts."""
    h11_oracle.EXCHANGES.clear()
    yield
    may_break_off = request.node.get_closest_marker("breaks_off") is not None
    faults = h11_oracle.faults(may_break_off=may_break_off)
    if faults:
        pytest.fail("h11 does not accept what came: " + "; ".join(faults))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home directory, readable by nobody else."""
    directory = tmp_path / "home"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
def systemd_lab(tmp_path: Path) -> Iterator[SystemdLab]:
    """A booted systemd that shares the test's directory; in CI it is missing only where the kernel is why."""
    if reason := missing():
        if may_be_skipped(os.environ):
            pytest.skip(reason)
        pytest.fail(f"In CI this must not be skipped: {reason}.")
    with SystemdLab(tmp_path) as lab:
        yield lab

from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent / "conftest.py"
SAMPLE = """
import pytest

def test_runs(home):
    assert home.stat().st_mode & 0o777 == 0o700

@pytest.mark.slow
def test_is_slow(request):
    assert request.node.get_closest_marker("timeout").args[0] > 60

@pytest.mark.slow
@pytest.mark.timeout(7)
def test_has_its_own_limit(request):
    assert request.node.get_closest_marker("timeout").args == (7,)

@pytest.mark.parametrize("number", [1, 2])
def test_lacks_something(number):
    pytest.skip("no dbus here")
"""

pytest_plugins = ["pytester"]


@pytest.fixture
def sample(pytester: pytest.Pytester) -> pytest.Pytester:
    """A directory with our conftest and three kinds of tests."""
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makeini("[pytest]\nmarkers = slow: slow")
    pytester.makepyfile(SAMPLE)
    return pytester


def test_the_fast_tier_leaves_slow_tests_out_and_says_so(sample: pytest.Pytester) -> None:
    """Without --all the slow tests do not run and are counted; skips are counted with their reason."""
    result = sample.runpytest("-q")
    result.assert_outcomes(passed=1, skipped=2, deselected=2)
    result.stdout.fnmatch_lines(["SKIPPED 2 checks:", "  2 x no dbus here", "LEFT for --all: 2 slow checks"])


def test_all_runs_both_tiers(sample: pytest.Pytester) -> None:
    """With --all nothing is left out, and slow tests have more than the minute that others have."""
    result = sample.runpytest("-q", "--all")
    result.assert_outcomes(passed=3, skipped=2)
    result.stdout.no_fnmatch_line("LEFT*")


def test_no_skip_is_said_too(sample: pytest.Pytester) -> None:
    """A run that skipped nothing says 0."""
    sample.runpytest("-q", "-k", "runs").stdout.fnmatch_lines(["SKIPPED 0 checks"])

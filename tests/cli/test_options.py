from pathlib import Path

import pytest

from pairproxy.cli.options import home_or_default


def test_the_home_that_is_given_wins(tmp_path: Path) -> None:
    """--home is taken as it is."""
    assert home_or_default(tmp_path) == tmp_path


def test_without_one_it_is_the_systems_place_or_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PAIRPROXY_HOME overrides the system's place for user data."""
    monkeypatch.setenv("PAIRPROXY_HOME", str(tmp_path))
    assert home_or_default(None) == tmp_path
    monkeypatch.delenv("PAIRPROXY_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert home_or_default(None).name == "pairproxy"

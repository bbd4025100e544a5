from pathlib import Path

import pytest

from pairproxy.cli.options import home_or_default, plain


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("laptop", "laptop"),
        ("a\x1b[2Jb", "a[2Jb"),
        ("two\nlines\t", "two lines"),
        ("\u202eevil", "evil"),
        ("", ""),
    ],
)
def test_what_others_named_is_harmless_on_a_terminal(text: str, shown: str) -> None:
    """No control character, no change of direction, one line."""
    assert plain(text) == shown

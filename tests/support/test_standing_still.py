import ctypes

import pytest

from tests.support.standing_still import STILL_S, TRIES, Stills, played


def times(monkeypatch: pytest.MonkeyPatch, failures: int, still_s: float) -> tuple[int, int]:
    """How often it is played, and cleared, if that often it fails while the machine stands still so long."""
    played_times = cleared = 0

    def play() -> None:
        nonlocal played_times
        played_times += 1
        if played_times <= failures:
            pytest.fail("too late")

    def clear() -> None:
        nonlocal cleared
        cleared += 1

    monkeypatch.setattr(Stills, "end", lambda self: still_s)
    try:
        played(play, clear)
    except pytest.fail.Exception:
        return -played_times, cleared
    return played_times, cleared


def test_what_fails_is_played_again_where_the_machine_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """So often and no oftener; what fails where it ran has failed."""
    assert times(monkeypatch, 0, STILL_S) == (1, 0)
    assert times(monkeypatch, 1, STILL_S) == (2, 1)
    assert times(monkeypatch, TRIES, STILL_S) == (-TRIES, TRIES - 1)
    assert times(monkeypatch, 1, STILL_S / 2) == (-1, 0)


def test_a_process_that_stands_still_is_seen_to() -> None:
    """Its own watch wakes too late: here one long call keeps every other thread of Python from running."""
    stills = Stills()
    standing = ctypes.PyDLL(None)
    standing.poll(None, 0, 300)  # holds the interpreter, as ctypes.CDLL would not
    assert stills.end() > 0.2

import os
import sys

import pytest

from pairproxy.tui.keys import END, has_keys, keyboard

pytest.importorskip("termios", reason="there are no terminals of this kind here")


class Stdin:
    """Standard input on a descriptor."""

    closed = False

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)


def test_keys_come_one_by_one_and_the_terminal_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Enter and without an echo; an arrow is no key, the end of input is one."""
    import pty
    import termios

    ours, theirs = pty.openpty()
    monkeypatch.setattr(sys, "stdin", Stdin(theirs))
    before = termios.tcgetattr(theirs)
    with keyboard() as read:
        assert not termios.tcgetattr(theirs)[3] & (termios.ECHO | termios.ICANON)
        assert read(0.0) == ""
        for typed, key in ((b"q", "q"), (b"\x1b[A", ""), (b"\xc3\xa4", "ä")):
            os.write(ours, typed)
            assert read(5.0) == key
        os.close(ours)
        assert read(5.0) == END
    monkeypatch.undo()
    with pytest.raises(termios.error):
        termios.tcgetattr(ours)
    assert before[3] & termios.ECHO
    os.close(theirs)


def test_the_modes_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the block ends with an error."""
    import pty
    import termios

    ours, theirs = pty.openpty()
    monkeypatch.setattr(sys, "stdin", Stdin(theirs))
    before = termios.tcgetattr(theirs)
    with pytest.raises(ZeroDivisionError), keyboard():
        raise ZeroDivisionError
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_without_a_terminal_no_key_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is asked of what is no terminal."""
    with open(os.devnull) as nothing:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", nothing)
        assert not has_keys()
        with keyboard() as read:
            assert read(0.0) == ""

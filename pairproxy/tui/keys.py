"""The keyboard, key by key where standard input is a terminal. The one file that knows of terminal modes.

Windows' half (msvcrt) was not tried.
"""

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

END = "\x04"  # what Ctrl-D sends; also told when the terminal is gone
READ_BYTES = 64  # one key is up to some six bytes
LOOK_S = 0.05  # between two looks, on Windows

ReadKey = Callable[[float], str]
"""Waits at most so many seconds for a key and returns it; "" if none came or it was none with a character."""


@contextmanager
def keyboard() -> Iterator[ReadKey]:
    """What reads a key inside the block; after it the terminal is as it was. Without one no key comes."""
    if not has_keys():
        yield _no_key
    elif os.name == "nt":
        yield _windows_key
    else:
        with _key_by_key(sys.stdin.fileno()) as read:
            yield read


def has_keys() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def _no_key(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextmanager
def _key_by_key(descriptor: int) -> Iterator[ReadKey]:
    import termios
    import tty

    before = termios.tcgetattr(descriptor)

    def read(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], max(seconds, 0.0))
        if not ready:
            return ""
        try:
            typed = os.read(descriptor, READ_BYTES)
        except OSError:
            return END
        if not typed:
            return END
        return "" if typed.startswith(b"\x1b") else typed.decode(errors="replace")[:1]

    try:
        tty.setcbreak(descriptor)
        yield read
    finally:
        with contextlib.suppress(termios.error, OSError):  # it is gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _windows_key(seconds: float) -> str:
    if sys.platform == "win32":
        import msvcrt

        end = time.monotonic() + seconds
        while not msvcrt.kbhit():
            if time.monotonic() >= end:
                return ""
            time.sleep(LOOK_S)
        key = msvcrt.getwch()
        if key not in ("\x00", "\xe0"):
            return key
        msvcrt.getwch()  # of an arrow or the like the second half follows
    return ""

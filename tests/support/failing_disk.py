"""A disk that fails, or a process that is killed, at the n-th call of the system: for every n.

for disk in every_fault(monkeypatch, act):   # act() is repeated until a run meets no fault any more
    ...                                      # look at what it left
"""

import errno
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pairproxy.core.errors import PairproxyError

CALLS = ("open", "write", "fsync", "replace", "unlink", "mkdir")
"""What changes a disk. Reading is not failed: nothing is lost by it."""


class Killed(BaseException):
    """kill -9: no handler runs that could tidy up. Not an Exception, as nothing may catch it."""


class FailingDisk:
    """Counts calls; the n-th (from 1) does not happen.

    ``number``: an errno that it fails with, None: the process ends there, and no later call happens either.
    """

    def __init__(self, at: int, number: int | None) -> None:
        self.at = at
        self.calls = 0
        self.is_over = False
        self._number = number

    @property
    def has_failed(self) -> bool:
        """Whether it came to that call."""
        return self.calls >= self.at

    def watching(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call as it is on this disk."""

        def watched(*arguments: Any, **more: Any) -> Any:
            if self.is_over or (call is _CALLS["open"] and not arguments[1] & (os.O_CREAT | os.O_WRONLY)):
                return call(*arguments, **more)
            self.calls += 1
            if self._number is None and self.calls >= self.at:
                if call is _CALLS["write"] and self.calls == self.at:
                    call(arguments[0], bytes(arguments[1][: len(arguments[1]) // 2]))
                raise Killed
            if self.calls == self.at:
                assert self._number is not None
                raise OSError(self._number, os.strerror(self._number))
            return call(*arguments, **more)

        return watched


def every_fault(
    monkeypatch: pytest.MonkeyPatch, prepare: Callable[[], None], act: Callable[[], object]
) -> Iterator[FailingDisk]:
    """Let ``act`` meet each fault there can be; the one who loops looks at what is left after it.

    Before each run ``prepare`` puts the old state there, on a disk without faults.
    """
    for number in (None, errno.ENOSPC, errno.EIO):
        at = 1
        while True:
            prepare()
            disk = FailingDisk(at, number)
            with monkeypatch.context() as patch:
                for name in CALLS:
                    patch.setattr(os, name, disk.watching(_CALLS[name]))
                try:
                    act()
                except (Killed, OSError, PairproxyError):
                    assert disk.has_failed, "it failed by itself"
            disk.is_over = True
            if not disk.has_failed:
                assert at > 1, "nothing was written"
                break
            yield disk
            at += 1


_CALLS: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in CALLS}

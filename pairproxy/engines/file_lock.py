"""A lock between processes that ends with its holder, however that ended."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

POLL_S = 0.2  # how often a waiter tries again; a person does not notice


class LockTimeout(Exception):
    """The holder did not end in time."""


@contextlib.asynccontextmanager
async def file_lock(
    path: Path, *, timeout_s: float, on_wait: Callable[[], None] = lambda: None
) -> AsyncIterator[None]:
    """Hold the lock ``path`` for the block. ``on_wait`` is called once, if somebody else has it.

    The system drops the lock when its holder's process ends, so a killed one blocks nobody; the
    empty file stays. Raises LockTimeout after ``timeout_s``, OSError if the file cannot be opened.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        has_told = False
        while not _try_lock(handle):
            if loop.time() >= deadline:
                raise LockTimeout
            if not has_told:
                on_wait()
                has_told = True
            await asyncio.sleep(POLL_S)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # what POSIX and Windows say when another holds it
        return False
    return True

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from pairproxy.engines.file_lock import LockTimeout, file_lock
from tests.support.running import run_async

ROOT = Path(__file__).parents[2]
HOLDER = """
import asyncio, sys
from pathlib import Path
from pairproxy.engines.file_lock import file_lock
async def main():
    async with file_lock(Path(sys.argv[1]), timeout_s=5):
        print("held", flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


def test_one_at_a_time(tmp_path: Path) -> None:
    """Blocks under one lock never overlap, and the waiter is told once that it waits."""
    told: list[str] = []
    inside: list[int] = []

    async def enter(name: str) -> None:
        async with file_lock(tmp_path / "lock", timeout_s=5, on_wait=lambda: told.append(name)):
            inside.append(1)
            assert len(inside) == 1
            await asyncio.sleep(0.3)
            inside.pop()

    async def scene() -> None:
        await asyncio.gather(enter("a"), enter("b"))

    run_async(scene())
    assert told == ["b"]


def test_the_wait_is_bounded(tmp_path: Path) -> None:
    """Who waits longer than allowed gets LockTimeout; afterwards the lock can still be had."""

    async def scene() -> None:
        async with file_lock(tmp_path / "lock", timeout_s=5):
            with pytest.raises(LockTimeout):
                async with file_lock(tmp_path / "lock", timeout_s=0.1):
                    pytest.fail("two hold it")
        async with file_lock(tmp_path / "lock", timeout_s=0):
            pass

    run_async(scene())


def test_a_killed_holder_blocks_nobody(tmp_path: Path) -> None:
    """The lock of a process that was killed is free at once."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )

    async def scene() -> None:
        with pytest.raises(LockTimeout):
            async with file_lock(tmp_path / "lock", timeout_s=0):
                pytest.fail("two hold it")
        holder.kill()
        async with file_lock(tmp_path / "lock", timeout_s=5):
            pass

    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        run_async(scene())

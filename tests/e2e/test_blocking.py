"""While a daemon serves nothing blocks its event loop: a call that would is an error, and fails the test."""

import asyncio
import contextlib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from pairproxy.api.client import get_explanation, get_report, get_status
from pairproxy.api.openapi import ENDPOINTS, STREAM
from pairproxy.api.schema import Status
from pairproxy.api.watching import watch_status
from pairproxy.cli.demo.cluster import pair
from pairproxy.security.private_files import ensure_private_directory
from tests.support.asking import Asker
from tests.support.daemons import until
from tests.support.running import run_async
from tests.test_daemon import ask, running

MAY_BLOCK = {
    "pairproxy/descriptors.py": {"_count_free"},  # a directory of the kernel's, in memory
}


@contextlib.contextmanager
def nothing_blocks() -> Iterator[None]:
    """Until the end of the block a call of the package that waits in the loop raises BlockingError."""
    watched = BlockBuster("pairproxy")
    for function in watched.functions.values():
        for file, names in MAY_BLOCK.items():
            function.can_block_in(file, names)
    watched.activate()
    try:
        yield
    finally:
        watched.deactivate()


def look_at_all(port: int) -> None:
    """Ask for every path of the admin port that is published and ends."""
    for path in (one.path for one in ENDPOINTS if not one.is_change and one.media != STREAM):
        url = f"http://127.0.0.1:{port}{path.replace('{id}', 'last')}"
        with urllib.request.urlopen(url, timeout=30) as reply:
            assert reply.read(), path


def test_two_daemons_serve_without_blocking(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """F45: questions, listings, what is passed on, a peer's heartbeat, status and reports, who watches."""
    other = tmp_path / "other"
    pair({"anna": home, "bert": other})

    async def scene() -> None:
        async with running(home) as (_, anna), running(other) as (_, bert):
            port = next(iter(anna.client_ports.values()))
            with nothing_blocks(), watch_status(home) as watch:
                assert isinstance(await asyncio.to_thread(next, watch), Status)
                for stream in (True, False):
                    assert (await ask(anna, stream=stream)).status == 200
                asker = Asker(port)
                for path in ("/api/tags", "/api/ps", "/v1/models", "/props"):
                    assert (await asyncio.to_thread(asker.request, "GET", path)).status == 200
                assert (
                    await asyncio.to_thread(asker.request, "POST", "/api/show", {"model": "paced:1b"})
                ).status == 200
                await asyncio.to_thread(
                    until, lambda: all(node.is_up for node in get_status(home).nodes), "peers"
                )
                await asyncio.to_thread(get_report, home)
                await asyncio.to_thread(get_explanation, home, "last")
                await asyncio.to_thread(look_at_all, anna.admin_port)
                await asyncio.sleep(0.6)  # probes and heartbeats
                assert isinstance(await asyncio.to_thread(next, watch), Status)
                assert 0 < (await asyncio.to_thread(get_status, home)).loop_lag_s < 5.0
            assert bert.node != anna.node

    run_async(scene(), timeout=40)
    assert [
        record.getMessage() for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")
    ] == []
    assert "BlockingError" not in caplog.text


def test_the_trap_works(home: Path) -> None:
    """A call that blocks in the loop, from a function of the package, is an error."""

    async def main() -> None:
        with nothing_blocks(), pytest.raises(Exception, match="Blocking call"):
            ensure_private_directory(home / "never")

    asyncio.run(main())

"""An app of a Mac that a person opens again, while the daemon has the port and paired machines serve."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pairproxy.api.client import get_status
from pairproxy.cli.demo.cluster import pair
from pairproxy.config import EngineKind
from pairproxy.engines.ports import Ports
from pairproxy.takeover import record
from pairproxy.takeover.asking import answers, is_refused
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.macos import QUIT, MacApp
from pairproxy.takeover.moving import Move
from pairproxy.takeover.plan import Pair, Planned
from pairproxy.takeover.taking import take
from tests.support.daemons import Daemons, settings
from tests.support.running import run_async
from tests.support.well_known import NOTHING_NAMED, well_known_ports
from tests.takeover.test_macos import Mac
from tests.test_daemon import running

DEADLINE_S = 60.0  # the daemon waits 15 s before it believes that an app is astray


@pytest.fixture
def ports() -> Iterator[dict[EngineKind, Ports]]:
    """Well-known ports that are free."""
    with well_known_ports() as known:
        yield known


@pytest.fixture
def mac(tmp_path: Path, ports: dict[EngineKind, Ports], monkeypatch: pytest.MonkeyPatch) -> Iterator[Mac]:
    """A Mac, on which this process runs."""
    usual, moved = ports["ollama"].usual, ports["ollama"].moved
    assert moved is not None
    with Mac(tmp_path / "mac", usual, moved) as mac:
        for name, value in mac.environment.items():
            monkeypatch.setenv(name, value)
        yield mac


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so, looked at in a thread."""
    async with asyncio.timeout(DEADLINE_S):
        while not await asyncio.to_thread(is_so):  # noqa: ASYNC110 other processes make it so
            await asyncio.sleep(0.05)


@pytest.mark.slow
def test_it_is_moved_again_while_the_port_stays_open(mac: Mac, home: Path, tmp_path: Path) -> None:
    """Its server finds the port taken and ends, again and again, until the daemon gives it its variable."""

    def peer_serves() -> bool:
        nodes = get_status(home).nodes
        return any(not node.is_self and any(engine.is_up for engine in node.engines) for node in nodes)

    def move() -> None:
        owner, machine = mac.open(), Machine(mac.runner)
        plan = MacApp().plan(Move("ollama", owner, mac.usual, mac.moved), machine)
        planned = Planned(Pair("ollama", mac.usual, mac.moved), "take", "", owner, "macos-app", plan)
        with record.alone(home):
            take(home, planned, machine, lambda _: None)

    def open_again() -> None:
        mac.run("osascript", "-e", QUIT)
        mac.until_refused(mac.moved)
        mac.run("open", "-a", str(mac.bundle))

    async def scene() -> None:
        async with running(home, NOTHING_NAMED):
            await until(peer_serves)
            await asyncio.to_thread(move)
            await asyncio.to_thread(open_again)
            assert not await asyncio.to_thread(is_refused, mac.usual)
            await until(lambda: answers("ollama", mac.moved))
            await until(lambda: mac.known("launchd") == {})  # unset only once the engine was seen there
            told = await asyncio.to_thread(get_status, home)
            (front,) = (one for one in told.ports if one.kind == "ollama")
            assert front.state == "open"

    with Daemons(tmp_path / "peers") as daemons:
        pair({"A": home, "B": daemons.home("B", settings())})
        daemons.start("B")
        run_async(scene(), timeout=120)

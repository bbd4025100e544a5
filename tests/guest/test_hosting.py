"""The offering of a daemon, with its real scheduler; and a daemon whose machine somebody uses."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from pairproxy.clock import MonotonicClock
from pairproxy.config import Limits, PeerSettings
from pairproxy.core.events import EngineReported, RequestArrived
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher
from pairproxy.engines.own import OwnEngines
from pairproxy.guest.hosting import offering
from tests.core.told import A, B, ask, report
from tests.support.asking import Asker
from tests.support.daemons import Daemons, Node, settings, until
from tests.support.node import settled_at_once
from tests.support.running import run_async

SPINS = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
QUIET_S = 60.0  # to wait for a moment of quiet on the machine that tests


def test_the_scheduler_is_told_and_the_guests_are_counted(tmp_path: Path) -> None:
    """Those of peers among all that runs on this node's engines."""

    async def check() -> None:
        scheduler = Scheduler(A)
        dispatcher = Dispatcher(scheduler, MonotonicClock(), settled_at_once, lambda name, work: work.close())
        engines = OwnEngines((), tmp_path, lambda done, all_: None, Limits())
        made = offering(PeerSettings(share="never"), tmp_path, scheduler, dispatcher, engines)
        await made.begin()
        assert scheduler.local.withheld == "never"
        made.follow_settings(PeerSettings())
        assert scheduler.local.withheld == ""
        now = dispatcher.now()
        scheduler.handle(EngineReported(now, report(3)))
        scheduler.handle(RequestArrived(now, ask("r")))
        scheduler.handle(RequestArrived(now, ask("b-r-1", origin=B)))
        assert made.status().guests == 1

    run_async(check())


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


def served_by(node: Node) -> str:
    """The node that serves a request at one."""
    return Asker(node.port).ask(tokens=2).headers["x-pairproxy-node"]


def until_offered(node: Node) -> None:
    """Wait until a node offers its slots; skips the test where the machine itself is not quiet."""
    end = time.monotonic() + QUIET_S
    while node.status().offer.withheld:
        if time.monotonic() > end:
            pytest.skip(f"other programs keep this machine busy: {node.status().offer.why}")
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_node_withdraws_while_somebody_uses_its_machine(daemons: Daemons) -> None:
    """Programs of an owner compute there: its peer goes elsewhere, until they have ended."""
    cores = psutil.cpu_count() or 1
    idle = {"share": "idle", "idle_after_s": 3.0, "idle_cpu": 0.85, "idle_memory_bytes": 0}
    daemons.home("A", settings(paced={"decode": 10.0}))
    daemons.home("B", settings(peers=idle))
    daemons.pair("A", "B")
    a, b = daemons.start("A", "B")
    daemons.until_connected()
    until_offered(b)
    until(lambda: a.view_of(b).withheld == "", "A hears that B offers")
    assert served_by(a) == b.id
    with ExitStack() as stack:
        for _ in range(cores):
            owner = subprocess.Popen([sys.executable, "-c", SPINS])
            stack.callback(owner.wait)
            stack.callback(owner.kill)
        until(lambda: a.view_of(b).withheld == "owner", "A hears that B is used")
        assert "programs use" in b.status().offer.why
        assert served_by(a) == a.id
        assert served_by(b) == b.id
    until_offered(b)
    until(lambda: a.view_of(b).withheld == "", "A hears that B offers again")
    assert served_by(a) == b.id


def test_nothing_is_left_of_it_after_a_daemon(tmp_path: Path) -> None:
    """It ends with its task; what it asks the system for is over in a moment."""

    async def check() -> None:
        scheduler = Scheduler(A)
        dispatcher = Dispatcher(scheduler, MonotonicClock(), settled_at_once, lambda name, work: work.close())
        engines = OwnEngines((), tmp_path, lambda done, all_: None, Limits())
        made = offering(PeerSettings(share="idle"), tmp_path, scheduler, dispatcher, engines)
        await made.begin()
        task = asyncio.create_task(made.run())
        while not made.status().unknown and not task.done():
            await asyncio.sleep(0.01)
            if not made.status().unknown and psutil.WINDOWS:
                break
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    run_async(check())

"""Discovery in tests: one that stays on loopback, an independent observer, and waiting."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable

import psutil
import pytest
from zeroconf import ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncZeroconf

from pairproxy.core.models import NodeId
from pairproxy.peers.announcement import HINT_CHARACTERS, SERVICE
from pairproxy.peers.discovery import Discovery, Pace

QUICK = Pace(watch_s=0.02, retry_s=0.02, longest_retry_s=0.05)
Told = list[tuple[str, str, int, str]]


class ManualClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        """The time it was set to."""
        return self.time


def new_id() -> NodeId:
    """A device id that no other test or process has."""
    return NodeId("".join(secrets.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") for _ in range(52)))


async def until(is_so: Callable[[], object], what: str) -> None:
    """Wait until something is so; the test fails after ten seconds."""
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"Not within 10 s: {what}")


@contextlib.asynccontextmanager
async def running(found: Discovery) -> AsyncIterator[asyncio.Task[None]]:
    """Run it as the daemon does, in a TaskGroup; cancel it at the end."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(found.run())
        try:
            yield task
        finally:
            task.cancel()


@contextlib.asynccontextmanager
async def observing() -> AsyncIterator[list[tuple[str, ServiceStateChange]]]:
    """What an independent browser on loopback notices: (name, change)."""
    events: list[tuple[str, ServiceStateChange]] = []

    def on_change(zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        events.append((name, state_change))

    mdns = AsyncZeroconf(interfaces=["127.0.0.1"])
    AsyncServiceBrowser(mdns.zeroconf, SERVICE, handlers=[on_change])
    try:
        yield events
    finally:
        await mdns.async_close()


def open_descriptors() -> int:
    """How many file descriptors this process has."""
    return psutil.Process().num_fds()


def name_of(found: Discovery) -> str:
    """The name under which it announces itself."""
    return f"{found._token}.{SERVICE}"


def loopback(own: NodeId, port: int, told: Told, **options: object) -> Discovery:
    """A discovery that stays on this machine and writes down what it tells."""
    options = {"pace": QUICK, **options}
    return Discovery(own, port, lambda *hint: told.append(hint), allow_loopback=True, **options)  # type: ignore[arg-type]


def from_node(told: Told, node: NodeId) -> Told:
    """The hints about one node; other processes may announce themselves on loopback as well."""
    return [hint for hint in told if hint[0] == node[:HINT_CHARACTERS]]


def told_times(told: Told, node: NodeId, times: int) -> Callable[[], bool]:
    """Whether there were so many hints about a node, to be asked again and again."""
    return lambda: len(from_node(told, node)) >= times


def lives_are(found: Discovery, lives: int) -> Callable[[], bool]:
    """Whether mDNS was made so many times, to be asked again and again."""
    return lambda: found.lives == lives

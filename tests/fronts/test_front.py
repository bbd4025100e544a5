"""An engine moves while its front is there: held, taken, given back; whoever asks meanwhile is answered."""

import asyncio
import http.client
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.api.client import get_status, ports_wish
from pairproxy.api.ports import PortStatus, PortWish
from pairproxy.config import EngineKind
from pairproxy.engines.ports import Ports
from tests.support.fake_engine import FakeEngine
from tests.support.fake_ollama import ollama_surface
from tests.support.running import run_async
from tests.support.well_known import NOTHING_NAMED, well_known_ports
from tests.test_daemon import running


@pytest.fixture
def ports() -> Iterator[dict[EngineKind, Ports]]:
    """Well-known ports that are free."""
    with well_known_ports() as known:
        yield known


def ollama_at(port: int | None) -> FakeEngine:
    """An Ollama; an async context manager."""
    return FakeEngine(ollama_surface(), port=port or 0)


def get(port: int, path: str = "/api/version") -> tuple[int, bytes]:
    """Ask a client port, as a program of this machine does."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


async def front_of(home: Path, kind: str = "ollama") -> PortStatus:
    """What is told of a front now."""
    status = await asyncio.to_thread(get_status, home)
    return next(one for one in status.ports if one.kind == kind)


async def told(home: Path, state: str, kind: str = "ollama") -> PortStatus:
    """Wait until the front is told to be in a state."""
    async with asyncio.timeout(30):
        while (front := await front_of(home, kind)).state != state:  # noqa: ASYNC110 another process may tell
            await asyncio.sleep(0.02)
    return front


def test_an_engine_on_its_port_is_served_and_its_front_waits(
    home: Path, ports: dict[EngineKind, Ports]
) -> None:
    """It starts all the same, says who has the port and what to do, and offers the engine where it is."""

    async def scene() -> None:
        async with ollama_at(ports["ollama"].usual), running(home, NOTHING_NAMED) as (_, file):
            front = await front_of(home)
            assert (front.state, front.port, front.hosts) == ("held", ports["ollama"].usual, ())
            assert "(pid " in str(front.holder)
            assert "pairproxy takeover" in front.why
            assert [one.state for one in file.ports] == ["held"]
            (engine,) = (await asyncio.to_thread(get_status, home)).nodes[0].engines
            assert (engine.engine, engine.is_up) == (f"ollama-{ports['ollama'].usual}", True)
            assert engine.port is None

    run_async(scene())


def test_a_port_that_is_wanted_is_had_the_moment_it_is_free(
    home: Path, ports: dict[EngineKind, Ports]
) -> None:
    """Takeover: requests that come while the engine moves wait for it, and none of them fails; back again."""
    usual, moved = ports["ollama"].usual, ports["ollama"].moved

    async def wish(want: str) -> PortStatus:
        answer = await asyncio.to_thread(ports_wish, home, PortWish(want, usual))  # type: ignore[arg-type]
        (front,) = answer.ports
        return front

    async def scene() -> None:
        async with running(home, NOTHING_NAMED):
            async with ollama_at(usual):
                await told(home, "held")
                assert (await wish("take")).state == "held"
            await told(home, "open")
            asked_at = time.monotonic()
            asking = asyncio.create_task(asyncio.to_thread(get, usual))
            await asyncio.sleep(0.2)
            assert not asking.done(), "it waits for the engine"
            async with ollama_at(moved) as engine:
                assert (await asking)[0] == 200
                assert time.monotonic() - asked_at < 10
                assert (await wish("usual")).state == "open"
                assert (await asyncio.to_thread(get, usual))[0] == 200
                assert {request.path for request in engine.requests} >= {"/api/version"}
                (told_of,) = (await asyncio.to_thread(get_status, home)).nodes[0].engines
                assert (told_of.engine, told_of.port) == (f"ollama-{usual}", usual)
                assert (await wish("give")).state == "given"
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.to_thread(get, usual)
            async with ollama_at(usual):
                assert (await wish("usual")).state == "held"
                assert (await wish("look")).state == "held"
                (told_of,) = (await asyncio.to_thread(get_status, home)).nodes[0].engines
                assert (told_of.engine, told_of.is_up) == (f"ollama-{usual}", True)

    run_async(scene())

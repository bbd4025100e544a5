"""How a daemon stops: what runs may end, what waits or comes is told."""

import asyncio
import functools
import http.client
import logging
from pathlib import Path

import msgspec
import pytest

from pairproxy import daemon as daemon_module
from pairproxy.api.schema import DaemonFile
from pairproxy.config import PacedSettings
from pairproxy.proxy import draining
from tests.support.asking import Asker, Got
from tests.support.daemons import until
from tests.support.running import run_async
from tests.test_daemon import ENGINE, SETTINGS, ask, running

CHAT = b'{"model":"paced:1b","messages":[{"role":"user","content":"hi"}]}'


def test_a_drain_has_an_end(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that takes too long is broken off; its engine is told to stop, and nothing is left."""
    monkeypatch.setattr(daemon_module, "drain", functools.partial(draining.drain, patience_s=0.2))
    slow = msgspec.structs.replace(ENGINE, paced=PacedSettings(decode=60.0))

    async def scene() -> Got:
        async with running(home, msgspec.structs.replace(SETTINGS, engines=(slow,))) as (daemon, file):
            asking = asyncio.create_task(ask(file, tokens=100_000))
            await asyncio.to_thread(until, lambda: is_replying(file), "the reply begins", 5.0)
            daemon.stop()
        return await asking

    assert not run_async(scene()).is_whole


def test_a_drain_refuses_what_is_new_or_waits_and_says_what_it_cut(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Meanwhile a kept-alive client hears 503; at the end so does who waited; the log counts both kinds."""
    monkeypatch.setattr(daemon_module, "drain", functools.partial(draining.drain, patience_s=1.0))
    caplog.set_level(logging.INFO)
    slow = msgspec.structs.replace(ENGINE, slots=1, paced=PacedSettings(decode=60.0))

    async def scene() -> tuple[Got, Got, int, int]:
        async with running(home, msgspec.structs.replace(SETTINGS, engines=(slow,))) as (daemon, file):
            kept = http.client.HTTPConnection("127.0.0.1", file.client_ports["paced"], timeout=10)
            assert await asyncio.to_thread(status_of, kept, "GET", "/api/tags") == 200
            cut = asyncio.create_task(ask(file, tokens=100_000))
            await asyncio.to_thread(until, lambda: is_replying(file), "the reply begins", 5.0)
            waiting = asyncio.create_task(ask(file, tokens=1))
            await asyncio.to_thread(until, lambda: queue_length(file) == 1, "one waits", 5.0)
            daemon.stop()
            await asyncio.to_thread(until, lambda: "stopping;" in caplog.text, "it drains", 5.0)
            new = await asyncio.to_thread(status_of, kept, "POST", "/api/chat", CHAT)
        return await cut, await waiting, new, len(caplog.records)

    cut, waiting, new, _ = run_async(scene())
    assert not cut.is_whole
    assert (waiting.status, new) == (503, 503)
    assert "error" in waiting.json()
    assert "stopping; 1 request running, 1 request waiting" in caplog.text
    assert "1 request cut off, 1 request refused" in caplog.text


def status_of(kept: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> int:
    """Ask on a connection that stays open."""
    kept.request(method, path, body)
    response = kept.getresponse()
    response.read()
    return response.status


def queue_length(file: DaemonFile) -> int:
    """How many requests wait."""
    return int(Asker(file.admin_port).request("GET", "/status").json()["queue_length"])


def is_replying(file: DaemonFile) -> bool:
    """Whether a reply is under way."""
    running = Asker(file.admin_port).request("GET", "/status").json()["running"]
    return any(one["has_first_byte"] for one in running)

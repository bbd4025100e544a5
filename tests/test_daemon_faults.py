"""What goes wrong while a daemon starts or runs, and the other spellings of its addresses."""

import asyncio
import functools
from pathlib import Path

import msgspec
import pytest

from pairproxy import daemon as daemon_module
from pairproxy.api.client import get_status
from pairproxy.cli.demo.cluster import pair
from pairproxy.config import AdminSettings, EngineSettings, PeerSettings
from pairproxy.core.errors import ConfigError
from pairproxy.peers import restarting
from pairproxy.peers.link import PeerLink
from tests.support.daemons import until
from tests.support.running import run_async
from tests.test_daemon import ENGINE, SETTINGS, SLOW_TO_MEASURE, ask, daemon_of, running


def test_stopped_before_it_runs_or_twice_or_while_it_fails_it_ends(home: Path) -> None:
    """No order of stop() and run() is an error."""
    taken = msgspec.structs.replace(SETTINGS, peers=PeerSettings(static=("no such host",)))

    async def scene() -> None:
        early = daemon_of(home)
        early.stop()
        await early.run(lambda file: None)
        failing = daemon_of(home, taken)
        with pytest.raises(ConfigError):
            await failing.run(lambda file: None)
        failing.stop()
        twice = daemon_of(home, msgspec.structs.replace(SETTINGS, engines=(SLOW_TO_MEASURE,)))
        task = asyncio.create_task(twice.run(lambda file: None))
        await asyncio.sleep(0)
        twice.stop()
        twice.stop()
        await task

    run_async(scene())


def test_a_fault_in_one_link_leaves_the_daemon_and_the_other_links(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The link is started again; its fault is named by class only, for its text may hold a prompt."""
    pair({"anna": home, "bert": tmp_path / "bert", "carl": tmp_path / "carl"})
    monkeypatch.setattr(daemon_module, "restarting", functools.partial(restarting.restarting, pause_s=0.01))
    runs: list[str] = []

    async def faulty(link: PeerLink) -> None:
        runs.append(link.name)
        if link.name == "bert":
            raise ExceptionGroup("a group", [KeyError("secret")])
        await asyncio.Event().wait()

    monkeypatch.setattr(PeerLink, "run", faulty)

    async def scene() -> None:
        async with running(home) as (_, file):
            await asyncio.to_thread(until, lambda: runs.count("bert") > 1, "it starts again", 5.0)
            assert (await ask(file, tokens=1)).status == 200
            assert runs.count("carl") == 1

    run_async(scene())
    assert "peer bert failed: KeyError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("host", ["[::1]", "127.4.5.6", "localhost"])
def test_loopback_in_other_spellings_is_found_by_its_file(home: Path, host: str) -> None:
    """daemon.json has the address beside the port, and status asks there."""
    entry = msgspec.structs.replace(ENGINE, listen=f"{host}:0")
    elsewhere = msgspec.structs.replace(SETTINGS, admin=AdminSettings(listen=f"{host}:0"), engines=(entry,))

    async def scene() -> None:
        async with running(home, elsewhere) as (_, file):
            shown = "127.0.0.1" if host == "localhost" else host.strip("[]")
            assert (file.admin_host, file.client_hosts) == (shown, {"paced": shown})
            assert (await asyncio.to_thread(get_status, home)).name == "anna"

    run_async(scene())


@pytest.mark.slow
def test_an_engine_that_is_off_is_waited_for(home: Path) -> None:
    """The ready file tells it from those that are served."""
    off = EngineSettings(kind="ollama", url="http://127.0.0.1:9", listen="127.0.0.1:0")

    async def scene() -> tuple[str, ...]:
        async with running(home, msgspec.structs.replace(SETTINGS, engines=(ENGINE, off))) as (_, file):
            return file.waiting_for

    assert run_async(scene()) == ("ollama-9",)

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from pairproxy.api.client import DAEMON_FILE, get_report, get_status, read_daemon_file, trust_changed
from pairproxy.api.schema import DaemonFile
from pairproxy.cli.demo.cluster import pair
from pairproxy.config import (
    AdminSettings,
    EngineSettings,
    Limits,
    NodeSettings,
    PacedSettings,
    PeerSettings,
    Settings,
)
from pairproxy.core.errors import ConfigError, EngineUnavailable, PortTaken, StoreError
from pairproxy.daemon import Daemon
from pairproxy.speeds import FILE as SPEEDS_FILE
from tests.support.asking import Asker, Got
from tests.support.fake_engine import eventually
from tests.support.running import run_async

ENGINE = EngineSettings(
    kind="paced", listen="127.0.0.1:0", paced=PacedSettings(decode=500.0, prefill=20000.0)
)
SETTINGS = Settings(
    node=NodeSettings(name="anna"),
    engines=(ENGINE,),
    admin=AdminSettings(listen="127.0.0.1:0"),
    peers=PeerSettings(listen="127.0.0.1:0", loopback=True),
)


SLOW_TO_MEASURE = msgspec.structs.replace(ENGINE, paced=PacedSettings(decode=1.0))


def daemon_of(home: Path, settings: Settings = SETTINGS, changed: Settings | None = None) -> Daemon:
    """Not started. ``changed``: what it finds when it reads its settings again."""
    return Daemon(settings, home, lambda done, total: None, lambda: changed or settings)


@contextlib.asynccontextmanager
async def running(
    home: Path, settings: Settings = SETTINGS, changed: Settings | None = None
) -> AsyncIterator[tuple[Daemon, DaemonFile]]:
    """A daemon in this process, ready; stopped after the block. ``changed``: told while it starts."""
    daemon = daemon_of(home, settings, changed)
    if changed is not None:
        daemon.reread()
    ready: asyncio.Future[DaemonFile] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(daemon.run(ready.set_result), name="daemon")

    def ended(task: "asyncio.Task[None]") -> None:
        if not ready.done():
            ready.set_exception(failure_of(task))

    task.add_done_callback(ended)
    await ready
    try:
        yield daemon, ready.result()
    finally:
        daemon.stop()
        await task


def failure_of(task: "asyncio.Task[None]") -> BaseException:
    """Why a daemon ended before it was ready."""
    return task.exception() or AssertionError("it ended without an error, and never was ready")


async def ask(file: DaemonFile, **more: object) -> Got:
    """One chat at the first client port."""
    return await asyncio.to_thread(Asker(next(iter(file.client_ports.values()))).ask, **more)  # type: ignore[arg-type]


def test_it_serves_from_the_moment_it_says_so_until_it_is_stopped(home: Path) -> None:
    """The first request after on_ready is answered; afterwards nothing of it is left, no task and no file."""

    async def scene() -> None:
        async with running(home) as (_, file):
            got = await ask(file, tokens=3)
            assert (got.status, len(got.lines())) == (200, 4)
        assert not (home / DAEMON_FILE).exists()

    run_async(scene())


def test_what_one_life_learned_is_known_in_the_next(home: Path) -> None:
    """It is kept in a private file when the daemon stops, and read before it answers."""

    async def scene() -> None:
        async with running(home) as (_, file):
            await ask(file, tokens=3)
        assert stat.S_IMODE((home / SPEEDS_FILE).stat().st_mode) == 0o600
        kept = msgspec.json.decode((home / SPEEDS_FILE).read_bytes())
        assert [(one["model"], one["tokens"]) for one in kept["lengths"]] == [("paced:1b", [3])]
        async with running(home) as (_, file):
            await ask(file, tokens=5)
        kept = msgspec.json.decode((home / SPEEDS_FILE).read_bytes())
        assert [one["tokens"] for one in kept["lengths"]] == [[3, 5]]

    run_async(scene())


def test_settings_that_change_while_it_starts_are_followed(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A SIGHUP that comes before it is ready is no fault: it reads them as soon as it can follow them."""
    caplog.set_level("INFO")
    changed = msgspec.structs.replace(
        SETTINGS, node=NodeSettings(name="berta"), limits=Limits(node_stale_s=4.0, header_bytes=9999)
    )

    async def scene() -> None:
        async with running(home, changed=changed) as (daemon, file):
            await eventually(lambda: "in force now: " in caplog.text)
            assert daemon._route.limits == Limits(node_stale_s=4.0), "what a reply goes by; no other limit"
            assert (await asyncio.to_thread(get_status, home)).name == "berta"
            assert (await ask(file, tokens=3)).status == 200

    run_async(scene())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_its_file_tells_where_it_is_and_only_to_its_owner(home: Path) -> None:
    """daemon.json is what on_ready was given, mode 0600."""

    async def scene() -> None:
        async with running(home) as (_, file):
            assert read_daemon_file(home) == file
            assert (file.pid, file.name, list(file.client_ports)) == (os.getpid(), "anna", ["paced"])
            assert stat.S_IMODE((home / DAEMON_FILE).stat().st_mode) == 0o600

    run_async(scene())


def test_the_token_for_changes_is_in_its_file_and_nowhere_else(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """New with each start; what anybody may ask for, and the log, do not hold it."""

    async def life() -> str:
        async with running(home) as (_, file):
            await asyncio.to_thread(trust_changed, home)
            told = [await asyncio.to_thread(get, home) for get in (get_status, get_report)]
            assert file.token not in repr(told)
        return file.token

    with caplog.at_level("DEBUG"):
        first, second = run_async(life()), run_async(life())
    assert len(first) >= 43  # 256 bits
    assert first != second
    assert first not in caplog.text
    assert second not in caplog.text


def test_the_peer_port_is_closed_until_somebody_is_paired(home: Path, tmp_path: Path) -> None:
    """An open port that nobody may use is only a risk."""

    async def scene() -> tuple[int | None, int | None]:
        async with running(home) as (_, file):
            alone = file.peer_port
        pair({"anna": home, "bert": tmp_path / "bert"})
        async with running(home) as (_, file):
            return alone, file.peer_port

    alone, paired = run_async(scene())
    assert alone is None
    assert paired


def test_only_one_runs_on_a_home(home: Path) -> None:
    """The second is refused while the first runs, and only then."""

    async def scene() -> None:
        async with running(home):
            with pytest.raises(StoreError, match=rf"Another pairproxy \(pid {os.getpid()}\)"):
                await daemon_of(home).run(lambda file: None)
            assert (home / DAEMON_FILE).exists()
        async with running(home):
            pass

    run_async(scene())


def test_what_a_killed_daemon_left_is_written_over(home: Path) -> None:
    """A stale daemon.json is no reason not to start."""
    stale = DaemonFile(1, "N", "old", 2, None, {})
    (home / DAEMON_FILE).write_bytes(msgspec.json.encode(stale))

    async def scene() -> None:
        async with running(home):
            assert read_daemon_file(home).name == "anna"

    run_async(scene())


def test_stopped_while_it_starts_it_never_was_ready(home: Path) -> None:
    """stop() before on_ready ends run() at once, without an error."""
    slow = msgspec.structs.replace(ENGINE, paced=PacedSettings(decode=1.0))

    async def scene() -> None:
        daemon = daemon_of(home, msgspec.structs.replace(SETTINGS, engines=(slow,)))
        ready: list[DaemonFile] = []
        task = asyncio.create_task(daemon.run(ready.append))
        await asyncio.sleep(0)  # one step: it has taken the home
        daemon.stop()
        async with asyncio.timeout(5.0):
            await task
        assert ready == []

    run_async(scene())


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"engines": (ENGINE, ENGINE)}, ConfigError, "Two engines are called paced"),
        ({"admin": AdminSettings(listen="0.0.0.0:0")}, ConfigError, "admin.listen"),
        ({"admin": AdminSettings(listen="nonsense")}, ConfigError, "admin.listen"),
        ({"engines": (msgspec.structs.replace(ENGINE, listen="8.8.8.8:80"),)}, ConfigError, "engines.listen"),
        ({"peers": PeerSettings(static=("http://nonsense",))}, ConfigError, "peers.static"),
        ({"engines": (EngineSettings(kind="ollama", url="http://127.0.0.1:11434"),)}, ConfigError, "11434"),
        ({"engines": (EngineSettings(kind="openai", listen="localhost:8000"),)}, ConfigError, "engines.url"),
        ({"engines": (EngineSettings(kind="embedded", listen="127.0.0.1:0"),)}, EngineUnavailable, "cache"),
    ],
)
def test_what_stops_it_from_starting_is_an_error_of_its_own(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    error: type[Exception],
    words: str,
) -> None:
    """Bare, not in a group; no file is left, and the home is free again."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PAIRPROXY_CACHE", str(tmp_path / "file" / "cache"))  # no model can be fetched
    wrong = msgspec.structs.replace(SETTINGS, **changes)

    async def scene() -> None:
        with pytest.raises(error, match=words):
            await daemon_of(home, wrong).run(lambda file: None)
        assert not (home / DAEMON_FILE).exists()
        async with running(home):
            pass

    run_async(scene())


def test_a_port_that_is_taken_leaves_the_other_daemon_alone(home: Path, tmp_path: Path) -> None:
    """Two homes, one admin port: the second hears who has it."""

    async def scene() -> None:
        async with running(home) as (_, file):
            wanted = AdminSettings(listen=f"127.0.0.1:{file.admin_port}")
            second = daemon_of(tmp_path / "second", msgspec.structs.replace(SETTINGS, admin=wanted))
            with pytest.raises(PortTaken, match=rf"pid {os.getpid()}"):
                await second.run(lambda file: None)
            assert (await ask(file, tokens=1)).status == 200

    run_async(scene())

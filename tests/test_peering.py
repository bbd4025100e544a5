"""A daemon among its peers: what follows from the trust store."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from pairproxy.api.client import DAEMON_FILE, get_status, read_daemon_file, trust_changed
from pairproxy.api.schema import DaemonFile
from pairproxy.cli.demo.cluster import pair
from pairproxy.config import NodeSettings, PeerSettings, Settings
from pairproxy.core.errors import PairproxyError
from pairproxy.peering import bind_peer_port
from pairproxy.proxy.listening import all_or_none
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.peer_record import PeerRecord
from pairproxy.security.trust import Trust, TrustStore
from tests.support.peering import GET_STATE, call, names_up, paired, rights, until
from tests.support.running import run_async
from tests.test_daemon import SETTINGS, daemon_of, running

ANY_PORT = Settings(peers=PeerSettings(listen="127.0.0.1:0"))


@pytest.fixture
def own(tmp_path: Path) -> Identity:
    """This node."""
    return load_or_create(tmp_path / "own")


@pytest.fixture
def trust(own: Identity, tmp_path: Path) -> TrustStore:
    """Its store, without a peer."""
    store = TrustStore(tmp_path / "own", own.device_id)
    store.load()
    return store


def test_the_peer_port_is_closed_until_somebody_is_paired(trust: TrustStore, tmp_path: Path) -> None:
    """Nobody can knock at a node that believes nobody."""
    with all_or_none() as keep:
        assert bind_peer_port(ANY_PORT, trust, keep) == []
        peer = load_or_create(tmp_path / "peer")
        trust.add(PeerRecord(peer.device_id, "ben", peer.certificate, may_use_me=True, i_may_use=True))
        (sock,) = bind_peer_port(ANY_PORT, trust, keep)
        assert sock.getsockname()[0] == "127.0.0.1"
        sock.close()


def test_a_peer_port_goes_where_the_settings_say(trust: TrustStore) -> None:
    """An address that is none is named with its key, also before anybody is paired."""
    wrong = msgspec.structs.replace(ANY_PORT, peers=PeerSettings(listen="nowhere"))
    with all_or_none() as keep, pytest.raises(Exception, match=r"peers\.listen"):
        bind_peer_port(wrong, trust, keep)


@pytest.fixture
def carl(tmp_path: Path) -> Identity:
    """A machine whose daemon the test plays."""
    return load_or_create(tmp_path / "carl")


@pytest.mark.slow
def test_two_daemons_that_run_are_paired_without_a_restart(home: Path, tmp_path: Path) -> None:
    """Ports open with the first peer, the commands find them, and both nodes see each other."""
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    named = msgspec.structs.replace(SETTINGS, node=NodeSettings(name="bert"))

    async def scene() -> None:
        async with running(home) as (_, anna), running(other, named) as (_, bert):
            assert (anna.peer_port, bert.peer_port) == (None, None)
            pair({"anna": home, "bert": other})
            for one in (home, other):
                assert await asyncio.to_thread(trust_changed, one)
            await until(lambda: names_up(home) == {"bert": True} and names_up(other) == {"anna": True})
            status = await asyncio.to_thread(get_status, home)
            assert read_daemon_file(home).peer_port == status.peer_port
            assert status.peer_port is not None
            assert (home / DAEMON_FILE).stat().st_mode & 0o077 == 0

    run_async(scene())


def test_a_pairing_that_came_too_early_to_be_told_is_found(home: Path, carl: Identity) -> None:
    """A command that found no daemon, because that was still starting, changed nothing in vain."""

    async def scene() -> None:
        daemon = daemon_of(home)
        read, is_paired = TrustStore.read, False

        def late(store: TrustStore) -> Trust:
            nonlocal is_paired
            found = read(store)
            if not is_paired:
                is_paired = True
                paired(home, carl)
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TrustStore, "read", late)
            ready: asyncio.Future[DaemonFile] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(daemon.run(ready.set_result))
            file = await ready
        try:
            assert file.peer_port is not None
            assert read_daemon_file(home) == file
        finally:
            daemon.stop()
            await task

    run_async(scene())


def test_what_was_read_first_is_not_taken_in_last(home: Path, carl: Identity) -> None:
    """A daemon that starts has read its peers when a command adds one and tells it: the new one stays."""

    async def scene() -> None:
        daemon, readers = daemon_of(home), list[TrustStore]()
        read, telling = TrustStore.read, ThreadPoolExecutor(1)

        def slow(store: TrustStore) -> Trust:
            readers.append(store)
            found = read(store)
            if readers == [store, store]:  # after the file for commands was written
                paired(home, carl)
                with suppress(TimeoutError):
                    telling.submit(trust_changed, home).result(0.3)
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TrustStore, "read", slow)
            ready: asyncio.Future[DaemonFile] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(daemon.run(ready.set_result))
            await ready
            try:
                await asyncio.to_thread(telling.shutdown)
                assert await asyncio.to_thread(names_up, home) == {"carl": False}
            finally:
                daemon.stop()
                await task

    run_async(scene())


def test_an_address_that_pairing_told_is_tried_without_a_restart(home: Path, tmp_path: Path) -> None:
    """F28: where no announcement passes a peer is found, and under the name that it has now."""
    other = tmp_path / "other"
    pair({"anna": home, "bert": other})
    deaf = msgspec.structs.replace(
        SETTINGS, peers=msgspec.structs.replace(SETTINGS.peers, discovery=False), node=NodeSettings(name="x")
    )

    async def scene() -> None:
        async with running(home, deaf), running(other, deaf) as (_, bert):
            node = load_or_create(other).device_id
            assert await asyncio.to_thread(names_up, home) == {"bert": False}
            there = f"127.0.0.1:{bert.peer_port}"
            assert await asyncio.to_thread(rights, home, node, addresses=(there,), name="bob")
            await until(lambda: names_up(home) == {"bob": True})

    run_async(scene())


@pytest.mark.breaks_off("who is forgotten is cut off in the middle")
def test_files_that_cannot_be_used_change_nothing(home: Path, carl: Identity) -> None:
    """The command hears what is wrong; whoever was a peer is one still."""
    paired(home, carl)
    often = msgspec.structs.replace(
        SETTINGS, peers=msgspec.structs.replace(SETTINGS.peers, state_interval_s=0.1)
    )

    async def scene() -> None:
        async with (
            running(home, often) as (_, file),
            await call(file, carl, load_or_create(home)) as heard,
        ):
            await heard.send(GET_STATE)
            reply = await heard.head()
            await heard.chunk(reply)
            bad = home / "peers" / ("A" * 52 + ".json")
            bad.touch(0o600)
            with pytest.raises(PairproxyError, match="is damaged"):
                await asyncio.to_thread(trust_changed, home)
            assert await heard.chunk(reply)

    run_async(scene())


def test_a_peer_port_that_cannot_open_is_told_in_the_log_too(
    home: Path, carl: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else has the port when the first machine is paired: command and log say who and what to do."""

    async def scene() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            listen = f"127.0.0.1:{other.getsockname()[1]}"
            taken = msgspec.structs.replace(SETTINGS, peers=PeerSettings(listen=listen, loopback=True))
            async with running(home, taken):
                paired(home, carl)
                with pytest.raises(PairproxyError, match="is taken"):
                    await asyncio.to_thread(trust_changed, home)

    run_async(scene())
    assert any("peers cannot reach this machine" in record.message for record in caplog.records)

"""A daemon among its peers: what follows from the trust store."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pairproxy.api.client import DAEMON_FILE, get_status, read_daemon_file, trust_changed
from pairproxy.api.schema import DaemonFile, Status
from pairproxy.cli.demo.cluster import pair
from pairproxy.config import NodeSettings, PacedSettings, PeerSettings, RoutingSettings, Settings
from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import NodeId
from pairproxy.peering import bind_peer_port
from pairproxy.proxy.listening import all_or_none
from pairproxy.security import tls
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.trust import PeerRecord, Trust, TrustStore
from tests.support.asking import Asker
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async
from tests.test_daemon import ENGINE, SETTINGS, daemon_of, running

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


# --- while daemons run ----------------------------------------------------------------------------------


def rights(home: Path, node: NodeId, **changes: object) -> bool:
    """Change what a peer may do, as a command does it; returns whether a daemon heard of it."""
    store = store_of(home)
    store.change(node, lambda record: msgspec.structs.replace(record, **changes))
    return trust_changed(home)


def forget(home: Path, node: NodeId) -> bool:
    """Forget a peer, as a command does it; returns whether a daemon heard of it."""
    assert store_of(home).forget(node)
    return trust_changed(home)


def store_of(home: Path) -> TrustStore:
    """The store of a home, read now."""
    store = TrustStore(home, load_or_create(home).device_id)
    store.load()
    return store


def names_up(home: Path) -> dict[str, bool]:
    """The peers that a daemon knows, and whether they are there."""
    return {node.name: node.is_up for node in get_status(home).nodes if not node.is_self}


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what a daemon says of itself; it is asked in a thread, since it runs in this one."""
    async with asyncio.timeout(20.0):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 another thread sets no event
            await asyncio.sleep(0.01)


async def call(file: DaemonFile, peer: Identity, server: Identity) -> RawClient:
    """A connection of a peer's to the peer port of a daemon in this process."""
    assert file.peer_port is not None
    context = tls.client_context(peer, server.certificate)
    return await RawClient.open(file.peer_port, ssl=context, server_hostname="")


GET_STATE = request("GET /pairproxy/state HTTP/1.1", None, host="pairproxy")


def chat(number: int, tokens: int = 1, host: str = "pairproxy") -> bytes:
    """A request as another node sends it."""
    body = b'{"model":"paced:1b","messages":[{"role":"user","content":"hello"}],"options":{"num_predict":%d}}'
    return request(
        "POST /api/chat HTTP/1.1",
        body % tokens,
        f"X-Pairproxy-Request: {number:08x}",
        "X-Pairproxy-Attempt: 1",
        "X-Pairproxy-Engine: paced",
        host=host,
    )


@pytest.fixture
def carl(tmp_path: Path) -> Identity:
    """A machine whose daemon the test plays."""
    return load_or_create(tmp_path / "carl")


def paired(home: Path, peer: Identity, **changes: Any) -> None:
    """Let the home trust a peer, as pairing does it."""
    record = PeerRecord(peer.device_id, "carl", peer.certificate, may_use_me=True, i_may_use=True)
    store_of(home).add(msgspec.structs.replace(record, **changes))


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
        read, is_paired = daemon_trust_read(), False

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


def daemon_trust_read() -> Callable[[TrustStore], Trust]:
    """TrustStore.read as it is."""
    return TrustStore.read


@pytest.mark.breaks_off("who is forgotten is cut off in the middle")
def test_who_is_forgotten_is_cut_off_at_once(home: Path, carl: Identity) -> None:
    """G06: its state stream and its request under way end, the engine stops, and it hears why."""
    paired(home, carl)

    async def scene() -> None:
        async with running(home) as (_, file), contextlib.AsyncExitStack() as stack:
            own = load_or_create(home)
            heard, asked, idle = [await stack.enter_async_context(await call(file, carl, own)) for _ in "123"]
            await heard.send(GET_STATE)
            await heard.chunk(await heard.head())
            await asked.send(chat(1, tokens=100_000))
            await asked.chunk(await asked.head())
            assert (await idle.ask(chat(2))).status == 409  # the one slot is taken, by carl
            assert await asyncio.to_thread(forget, home, carl.device_id)
            for connection in (heard, asked, idle):
                with contextlib.suppress(ConnectionError):
                    await connection.end()
            await until(lambda: not get_status(home).running)
            async with await call(file, carl, own) as again:
                reply = await again.ask(chat(3))
                assert (reply.status, reply.body) == (403, b"")
                assert reply.header("X-Pairproxy-Refused") == b"PeerRevoked"
                assert await again.end() == b""
            assert get_names(await asyncio.to_thread(get_status, home)) == []

    run_async(scene())


def get_names(status: Status) -> list[str]:
    """The peers in a status."""
    return [node.name for node in status.nodes if not node.is_self]


def test_who_is_paired_again_is_let_in_again(home: Path, carl: Identity) -> None:
    """Without a restart: the certificate is the same, and a person trusts it anew."""
    paired(home, carl)

    async def scene() -> None:
        async with running(home) as (_, file):
            own = load_or_create(home)
            await asyncio.to_thread(forget, home, carl.device_id)
            await asyncio.to_thread(paired, home, carl)
            await asyncio.to_thread(trust_changed, home)
            async with await call(file, carl, own) as again:
                assert (await again.ask(chat(1))).status == 200

    run_async(scene())


def test_who_was_forgotten_hears_why_also_after_a_restart(home: Path, tmp_path: Path, carl: Identity) -> None:
    """F41: it was off when it was forgotten, and we were started anew; a stranger still gets nothing."""
    paired(home, carl)
    paired(home, load_or_create(tmp_path / "dora"), name="dora")
    store_of(home).forget(carl.device_id)

    async def scene() -> None:
        async with running(home) as (_, file):
            own = load_or_create(home)
            async with await call(file, carl, own) as again:
                assert (await again.ask(GET_STATE)).header("X-Pairproxy-Refused") == b"PeerRevoked"
            stranger = load_or_create(tmp_path / "mallory")
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                async with await call(file, stranger, own) as unknown:
                    await unknown.ask(GET_STATE)

    run_async(scene())


@pytest.mark.breaks_off("who loses the right is cut off in the middle")
def test_a_right_that_is_taken_away_counts_at_once(home: Path, carl: Identity) -> None:
    """A peer that may no longer use us loses its connections, and hears that it may not."""
    paired(home, carl)

    async def scene() -> None:
        async with running(home) as (_, file), await call(file, carl, load_or_create(home)) as heard:
            await heard.send(GET_STATE)
            await heard.chunk(await heard.head())
            assert await asyncio.to_thread(rights, home, carl.device_id, may_use_me=False)
            with contextlib.suppress(ConnectionError):
                await heard.end()
            async with await call(file, carl, load_or_create(home)) as again:
                assert (await again.ask(chat(1))).header("X-Pairproxy-Refused") == b"UseNotAllowed"
            assert get_names(await asyncio.to_thread(get_status, home)) == ["carl"]
            await asyncio.to_thread(rights, home, carl.device_id, may_use_me=True)
            async with await call(file, carl, load_or_create(home)) as again:
                assert (await again.ask(chat(2))).status == 200

    run_async(scene())


SLOW = msgspec.structs.replace(
    SETTINGS,
    node=NodeSettings(name="bert"),
    engines=(
        msgspec.structs.replace(ENGINE, paced=PacedSettings(model="only:1b", decode=20.0, prefill=20000.0)),
    ),
)


def test_what_runs_at_a_forgotten_peer_is_broken_off(home: Path, tmp_path: Path) -> None:
    """A reply of its ends without its terminator, it is out of the status, and nothing more is sent there."""
    other = tmp_path / "other"
    pair({"anna": home, "bert": other})

    async def scene() -> None:
        async with running(home) as (_, anna), running(other, SLOW):
            await until(lambda: names_up(home) == {"bert": True} and has_model(home, "only:1b"))
            asker = Asker(next(iter(anna.client_ports.values())), "only:1b")
            got = asyncio.wrap_future(asker.start(tokens=400))
            await until(lambda: any(one.has_first_byte for one in get_status(home).running))
            assert await asyncio.to_thread(forget, home, load_or_create(other).device_id)
            broken = await got
            assert (broken.status, broken.is_whole) == (200, False)
            assert not await asyncio.to_thread(has_model, home, "only:1b")
            assert await asyncio.to_thread(names_up, home) == {}
            assert (await asyncio.to_thread(asker.ask)).status == 404
            await until(lambda: not get_status(other).running)

    run_async(scene())


def has_model(home: Path, model: str) -> bool:
    """Whether a daemon sees a model anywhere."""
    status = get_status(home)
    return any(
        one.model == model for node in status.nodes for engine in node.engines for one in engine.replicas
    )


@pytest.mark.slow  # NodeLost, which does it, is told in every test here
def test_what_waits_for_a_forgotten_peers_first_byte_goes_elsewhere(home: Path, tmp_path: Path) -> None:
    """Its client gets a whole answer, of another node."""
    other = tmp_path / "other"
    pair({"anna": home, "bert": other})
    reads_slowly = msgspec.structs.replace(
        SETTINGS,
        node=NodeSettings(name="bert"),
        engines=(msgspec.structs.replace(ENGINE, paced=PacedSettings(prefill=400.0, decode=500.0)),),
    )

    takes_what_is_free = msgspec.structs.replace(SETTINGS, routing=RoutingSettings(policy="least-busy"))

    async def scene() -> None:
        async with running(home, takes_what_is_free) as (_, anna), running(other, reads_slowly):
            await until(lambda: names_up(home) == {"bert": True} and count_models(home) == 2)
            port, bert = next(iter(anna.client_ports.values())), load_or_create(other).device_id
            async with await RawClient.open(port) as held:  # its own slot is taken for a minute
                await held.send(chat(1, tokens=30_000, host="localhost"))
                await held.chunk(await held.head())
                got = asyncio.wrap_future(Asker(port).start("word " * 4000, tokens=3))
                await until(lambda: any(one.node == bert for one in get_status(home).running))
                assert await asyncio.to_thread(forget, home, bert)
                held.reset()
            answer = await got
            assert (answer.status, answer.is_whole, len(answer.lines())) == (200, True, 4)

    run_async(scene())


def count_models(home: Path) -> int:
    """Replicas that a daemon sees, on all nodes."""
    return sum(len(engine.replicas) for node in get_status(home).nodes for engine in node.engines)


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

"""Who is forgotten, or loses a right, while daemons run."""

import asyncio
import contextlib
from pathlib import Path

import msgspec
import pytest

from pairproxy.api.client import get_status, trust_changed
from pairproxy.api.schema import Status
from pairproxy.cli.demo.cluster import pair
from pairproxy.config import NodeSettings, PacedSettings, RoutingSettings
from pairproxy.security.identity import Identity, load_or_create
from tests.support.asking import Asker
from tests.support.peering import GET_STATE, call, chat, forget, names_up, paired, rights, store_of, until
from tests.support.raw_client import RawClient
from tests.support.running import run_async
from tests.test_daemon import ENGINE, SETTINGS, running


@pytest.fixture
def carl(tmp_path: Path) -> Identity:
    """A machine whose daemon the test plays."""
    return load_or_create(tmp_path / "carl")


@pytest.mark.breaks_off
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
@pytest.mark.breaks_off
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


@pytest.mark.slow
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


@pytest.mark.slow  # NodeForgotten, which does it, is told in every test here
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

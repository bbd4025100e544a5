"""Connections to peers: the pinned certificate comes first, then the first byte of a request."""

import asyncio
import ssl
from pathlib import Path

import pytest

from pairproxy.config import Limits
from pairproxy.core.errors import BrokenReply, NotTrusted, ReplyTruncated, Unreachable
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.tls import client_context, server_context, trust_certificate
from pairproxy.upstreams import Upstream
from pairproxy.upstreams import upstream as upstream_module
from tests.support.certificates import as_identity, der, forge
from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, head, json_bytes, raw
from tests.support.fake_engine import FakeEngine, eventually
from tests.support.relaying import GET, LIMITS, Sink, post, serving
from tests.support.running import run_async

pytestmark = pytest.mark.timed

OK = json_bytes({"ok": 1})


@pytest.fixture
def anna(tmp_path: Path) -> Identity:
    """The node that sends."""
    return load_or_create(tmp_path / "anna")


@pytest.fixture
def ben(tmp_path: Path) -> Identity:
    """The peer that answers."""
    return load_or_create(tmp_path / "ben")


@pytest.fixture
def rogue(tmp_path: Path) -> Identity:
    """Somebody at the peer's address."""
    return load_or_create(tmp_path / "rogue")


def to_ben(engine: FakeEngine, anna: Identity, ben: Identity) -> Upstream:
    """The upstream by which anna reaches ben."""
    context = client_context(anna, ben.certificate)
    return Upstream(engine, limits=LIMITS, tls=context, pin=ben.certificate)


def test_a_paired_peer_answers_over_tls_and_its_connection_is_reused(anna: Identity, ben: Identity) -> None:
    """Splicing, reuse and large bodies work as without TLS."""

    async def talk() -> None:
        body = b"x" * 3_000_000
        pieces = [chunked_head(), chunk(b"one\n"), chunk(b"two\n"), LAST_CHUNK]
        tls = server_context(ben, [anna.certificate])
        async with FakeEngine(raw(*pieces, gap_s=0.003), tls=tls) as engine:
            upstream = to_ben(engine, anna, ben)
            for _ in range(2):
                reply = await upstream.send(post(body))
                sink = Sink()
                await sink.relay(reply)
                assert sink.raw == b"".join(pieces[1:])
            assert [one.body for one in engine.requests] == [body, body]
            assert len(engine.connections) == 1
            await upstream.close()

    run_async(talk())


def test_another_key_at_the_address_gets_no_byte(anna: Identity, ben: Identity, rogue: Identity) -> None:
    """F3, F23: the handshake itself refuses a stranger."""

    async def talk() -> None:
        async with FakeEngine(raw(OK), tls=server_context(rogue, [anna.certificate])) as engine:
            with pytest.raises(NotTrusted) as caught:
                await to_ben(engine, anna, ben).send(post(b"prompt"))
            assert caught.value.may_retry
            assert caught.value.__suppress_context__
            assert all(not one.received for one in engine.connections)

    run_async(talk())


def test_a_certificate_that_tls_accepts_but_is_not_the_pin_gets_no_byte(
    tmp_path: Path, anna: Identity, ben: Identity, rogue: Identity
) -> None:
    """G05 seen from the client: what the store believes is not enough, the certificate must be the one."""
    issuer, key = forge(subject="ca", is_ca=True)
    leaf = as_identity(tmp_path / "leaf", *forge(subject="leaf", issuer=(issuer, key)))

    async def talk(answering: Identity, also_trusted: bytes) -> None:
        context = client_context(anna, ben.certificate)
        trust_certificate(context, also_trusted)
        async with FakeEngine(raw(OK), tls=server_context(answering, [anna.certificate])) as engine:
            upstream = Upstream(engine, limits=LIMITS, tls=context, pin=ben.certificate)
            with pytest.raises(NotTrusted):
                await upstream.send(post(b"prompt"))
            assert all(not one.received for one in engine.connections)
            await upstream.close()
            unpinned = Upstream(engine, limits=LIMITS, tls=context)  # which shows that only the pin refused
            assert (await unpinned.send(GET)).status == 200
            await unpinned.close()

    run_async(talk(rogue, rogue.certificate))
    run_async(talk(leaf, der(issuer)))


def test_a_burst_dials_in_turns_and_takes_what_comes_free(anna: Identity, ben: Identity) -> None:
    """Of 40 requests at once each is answered, over fewer connections than there are requests."""

    async def main() -> None:
        async with FakeEngine(raw(OK), tls=server_context(ben, [anna.certificate])) as engine:
            upstream = to_ben(engine, anna, ben)
            replies = await asyncio.gather(*(upstream.send(post(b"prompt")) for _ in range(40)))
            assert {reply.status for reply in replies} == {200}
            assert len(engine.requests) == 40
            assert len(engine.connections) < 40
            await upstream.close()

    run_async(main())


def test_a_peer_that_refuses_our_key_is_not_trusted(anna: Identity, ben: Identity, rogue: Identity) -> None:
    """TLS 1.3 tells the client only at its first read; another node may still be tried."""

    async def talk() -> None:
        async with FakeEngine(raw(OK), tls=server_context(ben, [rogue.certificate])) as engine:
            with pytest.raises((NotTrusted, BrokenReply)) as caught:
                await to_ben(engine, anna, ben).send(GET)
            assert caught.value.may_retry
            assert engine.requests == []

    run_async(talk())


def test_plain_http_where_tls_is_expected_gets_no_byte(anna: Identity, ben: Identity) -> None:
    """Whatever runs there did not prove the key."""

    async def talk() -> None:
        async with FakeEngine(raw(OK)) as engine:
            upstream = to_ben(engine, anna, ben)
            engine.connections.clear()
            task = asyncio.create_task(upstream.send(post(b"prompt")))
            await eventually(lambda: bool(engine.connections))
            await engine.connections[0].received_bytes(1)
            await engine.connections[0].send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            with pytest.raises(NotTrusted):
                await task
            assert b"prompt" not in engine.connections[0].received
            assert b"HTTP" not in engine.connections[0].received

    run_async(talk())


def test_a_handshake_that_never_ends_is_given_up(
    anna: Identity, ben: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that accepts and says nothing is unreachable after the handshake's own limit."""
    monkeypatch.setattr(upstream_module, "HANDSHAKE_S", 0.1)

    async def talk() -> None:
        async with FakeEngine(raw(OK)) as engine:
            with pytest.raises(Unreachable):
                await to_ben(engine, anna, ben).send(GET)
            await engine.connections[0].peer_left()

    run_async(talk())


def test_a_peer_that_dies_under_tls_truncates_its_reply(anna: Identity, ben: Identity) -> None:
    """J05 and J08 over TLS: an end without TLS's own goodbye is never taken for the end of a body."""

    async def talk(pieces: list[bytes]) -> None:
        tls = server_context(ben, [anna.certificate])
        async with FakeEngine(raw(*pieces, gap_s=0.02, then="reset"), tls=tls) as engine:
            upstream = to_ben(engine, anna, ben)
            reply = await upstream.send(GET)
            with pytest.raises(ReplyTruncated):
                await Sink().relay(reply)
            await upstream.close()

    run_async(talk([chunked_head(), chunk(b"one\n")]))
    run_async(talk([head(200), b"half"]))


def test_tls_with_its_goodbye_ends_a_body_without_framing(anna: Identity, ben: Identity) -> None:
    """close_notify is an end as good as FIN."""

    async def talk() -> None:
        tls = server_context(ben, [anna.certificate])
        async with FakeEngine(raw(head(200), b"whole", gap_s=0.02, then="close"), tls=tls) as engine:
            upstream = to_ben(engine, anna, ben)
            assert await (await upstream.send(GET)).read(100) == b"whole"
            await upstream.close()

    run_async(talk())


def test_a_cancelled_request_to_a_peer_is_seen_at_once(anna: Identity, ben: Identity) -> None:
    """F31 over TLS."""

    async def talk() -> None:
        async with FakeEngine(raw(then="hang"), tls=server_context(ben, [anna.certificate])) as engine:
            upstream = to_ben(engine, anna, ben)
            task = asyncio.create_task(upstream.send(GET))
            await eventually(lambda: len(engine.requests) == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await engine.connections[0].peer_left()
            await upstream.close()

    run_async(talk())


def test_a_pin_without_tls_is_a_mistake() -> None:
    """It would check nothing, so it is refused."""
    with pytest.raises(ValueError, match="pin"):
        Upstream(FakeEngine(raw(OK)), limits=Limits(), pin=b"x")


def test_connections_are_plain_without_a_context() -> None:
    """A local engine has no certificate."""

    async def talk() -> None:
        async with serving(raw(OK)) as (engine, upstream):
            await upstream.send(GET)
            connection = upstream._pool.take(engine.address())
            assert connection is not None
            assert connection.peer_certificate() is None
            connection.end()

    run_async(talk())


def test_contexts_under_test_are_the_products_own(anna: Identity, ben: Identity) -> None:
    """TLS 1.3 with both certificates, and no name check: the pin is the name."""
    context = client_context(anna, ben.certificate)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert not context.check_hostname

"""Group G: who gets in at the peer port, over real connections.

What follows from the trust store while a daemon runs (G06) is in tests/test_peering_revoking.py, and the
handshakes of 200 strangers (G10) are in tests/proxy/test_handshakes.py.
"""

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

import pytest

from pairproxy.proxy import server
from pairproxy.proxy.listening import bind, port_of
from pairproxy.security import tls
from tests.support.certificates import as_identity, der, forge
from tests.support.node import Node, identity
from tests.support.peer_calls import STATE, ben_trusting_anna, call, sent
from tests.support.raw_client import RawClient
from tests.support.running import run_async
from tests.support.tls_port import bare_client


async def got_by(ben: Node, context: ssl.SSLContext | None) -> bytes:
    """All that ben's peer port says to a caller with this context, who asks for the state."""
    name = "" if context is not None else None
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        async with await RawClient.open(ben.peer_port_number, ssl=context, server_hostname=name) as client:
            await client.send(STATE)
            return await client.end()
    return b""


def stranger(row: str, ben: Node, directory: Path) -> ssl.SSLContext | None:
    """How the caller of a row speaks."""
    if row == "G01":
        return None
    if row == "G02":
        return bare_client()
    if row == "G03":
        return tls.client_context(identity("mallory"), ben.identity.certificate)
    if row == "G04":
        forged = as_identity(directory, *forge(subject=identity("anna").device_id))
        return tls.client_context(forged, ben.identity.certificate)
    old = bare_client(ssl.TLSVersion.TLSv1_2)
    old.load_cert_chain(identity("anna").certificate_file, identity("anna").key_file)
    return old


@pytest.mark.parametrize("row", ["G01", "G02", "G03", "G04", "G08"])
def test_who_is_not_paired_gets_no_byte(row: str, tmp_path: Path) -> None:
    """Plain HTTP, no certificate, an unknown one, a peer's subject with another key, an old TLS: nothing."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine):
            assert b"HTTP" not in await got_by(ben, stranger(row, ben, tmp_path))
            assert (engine.requests, ben.peer_port.connections, ben.records) == ([], 0, ())
            async with await call(ben) as anna:
                assert (await anna.ask(sent())).status == 200

    run_async(main())


def test_g05_a_leaf_that_a_poisoned_store_lets_in_is_told_that_it_is_nobody(tmp_path: Path) -> None:
    """OpenSSL is satisfied by the signature of a paired authority; the exact certificate decides."""

    async def main() -> None:
        authority = forge(subject="PAIRED", is_ca=True)
        leaf = as_identity(tmp_path, *forge(subject="LEAF", issuer=authority))
        async with ben_trusting_anna() as (ben, engine):
            (sock,) = bind("127.0.0.1", 0, "")
            await ben.peer_port.start(sock, tls.server_context(ben.identity, [der(authority[0])]))
            async with await call(ben, leaf, port_of(sock)) as caller:
                reply = await caller.ask(sent())
                assert (reply.status, reply.body) == (403, b"")
                assert reply.header("X-Pairproxy-Refused") == b"PeerNotTrusted"
                assert await caller.end() == b""
            assert engine.requests == []

    run_async(main())


def test_g07_an_old_session_is_no_way_in() -> None:
    """A second connection with the session of the first shakes hands in full: there was no ticket."""

    def twice(port: int, context: ssl.SSLContext) -> tuple[bytes, bytes, bool | None]:
        with (
            socket.create_connection(("127.0.0.1", port), 10.0) as plain,
            context.wrap_socket(plain) as first,
        ):
            first.sendall(STATE)
            before, session = first.recv(12), first.session
        with (
            socket.create_connection(("127.0.0.1", port), 10.0) as plain,
            context.wrap_socket(plain, session=session) as second,
        ):
            second.sendall(STATE)
            return before, second.recv(12), second.session_reused

    async def main() -> None:
        async with ben_trusting_anna() as (ben, _):
            context = tls.client_context(identity("anna"), ben.identity.certificate)
            assert await asyncio.to_thread(twice, ben.peer_port_number, context) == (
                b"HTTP/1.1 200", b"HTTP/1.1 200", False,
            )  # fmt: skip

    run_async(main())


@pytest.mark.parametrize("hello", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["none", "half"])
def test_g09_a_hello_that_does_not_come_is_not_waited_for(
    hello: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who connects and does not shake hands is put out after a few seconds."""
    assert server.HANDSHAKE_S <= 5.0
    monkeypatch.setattr(server, "HANDSHAKE_S", 0.2)

    async def main() -> None:
        async with ben_trusting_anna() as (ben, _):
            async with await RawClient.open(ben.peer_port_number) as silent:
                await silent.send(hello)
                with contextlib.suppress(ConnectionError):
                    assert b"HTTP" not in await silent.end()
            assert ben.peer_port.connections == 0

    run_async(main())

"""Rows G01-G08 of the bad inputs as far as TLS decides them, over real sockets."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.peer_record import PeerRecord
from pairproxy.security.tls import ALPN, client_context, peer_certificate, server_context, trust_certificate
from pairproxy.security.trust import TrustStore
from tests.support.certificates import Key, as_identity, der, forge
from tests.support.tls_port import DEADLINE_S, Listener, ask, assert_refused, bare_client


@pytest.fixture
def anna(tmp_path: Path) -> Identity:
    """The node that listens."""
    return load_or_create(tmp_path / "anna")


@pytest.fixture
def ben(tmp_path: Path) -> Identity:
    """A node paired with anna."""
    return load_or_create(tmp_path / "ben")


@pytest.fixture
def stranger(tmp_path: Path) -> Identity:
    """A node that nobody paired with."""
    return load_or_create(tmp_path / "stranger")


def test_paired_nodes_talk_and_know_each_other(anna: Identity, ben: Identity) -> None:
    """Two paired nodes speak TLS 1.3 with our protocol name, and each sees the other's exact certificate."""

    async def main() -> None:
        async with Listener(server_context(anna, [ben.certificate])) as listener:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", listener.port, ssl=client_context(ben, anna.certificate)
            )
            tls = writer.get_extra_info("ssl_object")
            assert tls.version() == "TLSv1.3"
            assert tls.selected_alpn_protocol() == ALPN
            assert peer_certificate(writer.transport) == anna.certificate
            writer.write(b"ping")
            assert await asyncio.wait_for(reader.read(100), DEADLINE_S) == b"pong"
            writer.close()
            await writer.wait_closed()
            assert listener.certificates == [ben.certificate]

    asyncio.run(main())


def test_without_tls_there_is_no_certificate() -> None:
    """A transport that is missing or plain has no certificate."""

    async def main() -> None:
        here, there = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=here)
        assert peer_certificate(writer.transport) is None
        assert peer_certificate(None) is None
        writer.close()
        there.close()

    asyncio.run(main())


def test_plain_http_gets_nothing(anna: Identity, ben: Identity) -> None:
    """G01: a plain HTTP request to the TLS port gets no byte."""
    assert_refused(server_context(anna, [ben.certificate]), None)


def test_a_client_without_certificate_gets_nothing(anna: Identity, ben: Identity) -> None:
    """G02: no client certificate, no byte, and the application is not asked."""
    assert_refused(server_context(anna, [ben.certificate]), bare_client())


def test_an_unknown_certificate_gets_nothing(anna: Identity, ben: Identity, stranger: Identity) -> None:
    """G03: a certificate of our profile that was never paired gets no byte."""
    assert_refused(server_context(anna, [ben.certificate]), client_context(stranger, anna.certificate))


def test_nobody_is_believed_before_the_first_pairing(anna: Identity, ben: Identity) -> None:
    """G03: with an empty trust store everybody is refused."""
    assert_refused(server_context(anna, []), client_context(ben, anna.certificate))


def test_the_subject_of_a_peer_is_not_enough(anna: Identity, ben: Identity, tmp_path: Path) -> None:
    """G04: a certificate with a paired peer's subject and another key gets no byte."""
    impostor = as_identity(tmp_path / "impostor", *forge(subject=ben.device_id))
    assert_refused(server_context(anna, [ben.certificate]), client_context(impostor, anna.certificate))


def test_a_certificate_issued_by_a_paired_peer_gets_nothing(
    anna: Identity, ben: Identity, tmp_path: Path
) -> None:
    """G05: a peer's certificate of our profile cannot vouch for another one."""
    key = _key_of(ben)
    leaf, leaf_key = forge(subject="LEAF", issuer=(x509.load_der_x509_certificate(ben.certificate), key))
    leaf_identity = as_identity(tmp_path / "leaf", leaf, leaf_key)
    assert_refused(server_context(anna, [ben.certificate]), client_context(leaf_identity, anna.certificate))


def _key_of(identity: Identity) -> Key:
    return load_pem_private_key(identity.key_file.read_bytes(), None)  # type: ignore[return-value]


def test_a_leaf_of_a_poisoned_store_is_caught_by_the_exact_compare(
    anna: Identity, ben: Identity, tmp_path: Path
) -> None:
    """G05: if an authority got into the context, its leaf passes TLS, and the trust store still says no."""
    authority, authority_key = forge(subject="AUTHORITY", is_ca=True)
    leaf, leaf_key = forge(subject=ben.device_id, issuer=(authority, authority_key))
    leaf_identity = as_identity(tmp_path / "leaf", leaf, leaf_key)
    store = TrustStore(tmp_path / "anna", anna.device_id)
    store.load()
    store.add(
        PeerRecord(
            node=ben.device_id, name="ben", certificate=ben.certificate, may_use_me=True, i_may_use=True
        )
    )

    async def main() -> None:
        async with Listener(server_context(anna, [ben.certificate, der(authority)])) as listener:
            answer = await ask(listener, client_context(leaf_identity, anna.certificate))
            assert answer.reply == b"pong"
            (shown,) = listener.certificates
            assert shown == leaf_identity.certificate
            assert store.by_certificate(shown) is None

    asyncio.run(main())


def test_no_session_is_resumed(anna: Identity, ben: Identity) -> None:
    """G07: no ticket is issued, so a second connection with the first one's session is a full handshake."""

    async def main() -> None:
        context = client_context(ben, anna.certificate)
        async with Listener(server_context(anna, [ben.certificate])) as listener:
            first = await ask(listener, context)
            assert first.reply == b"pong"
            assert first.session is not None
            assert not first.session.has_ticket
            second = await ask(listener, context, first.session)
            assert second.reply == b"pong"
            assert second.is_resumed is False

    asyncio.run(main())


def test_a_willing_client_gets_no_ticket(anna: Identity, ben: Identity) -> None:
    """G07: a client that would take tickets is given none either."""

    async def main() -> None:
        willing = bare_client()
        willing.load_cert_chain(ben.certificate_file, ben.key_file)
        async with Listener(server_context(anna, [ben.certificate])) as listener:
            answer = await ask(listener, willing)
            assert answer.reply == b"pong"
            assert answer.session is not None
            assert not answer.session.has_ticket

    asyncio.run(main())


def test_tls_1_2_is_refused(anna: Identity, ben: Identity) -> None:
    """G08: a client that knows only TLS 1.2 gets no byte, although its certificate is paired."""
    old = bare_client(ssl.TLSVersion.TLSv1_2)
    old.load_cert_chain(ben.certificate_file, ben.key_file)
    assert_refused(server_context(anna, [ben.certificate]), old)


def test_a_rogue_at_a_peers_address_gets_no_byte_of_a_request(
    anna: Identity, ben: Identity, stranger: Identity
) -> None:
    """Another key at the address of a peer: the handshake fails before a byte of a request is written."""

    async def main() -> None:
        async with Listener(server_context(stranger, [ben.certificate])) as rogue:
            with pytest.raises(ssl.SSLCertVerificationError):
                await ask(rogue, client_context(ben, anna.certificate))
        assert b"".join(rogue.received) == b""

    asyncio.run(main())


def test_two_peers_are_trusted_at_once(anna: Identity, ben: Identity, stranger: Identity) -> None:
    """Certificates of several peers in one context are all accepted: their subjects differ."""

    async def main() -> None:
        async with Listener(server_context(anna, [ben.certificate, stranger.certificate])) as listener:
            for identity in (ben, stranger, ben):
                answer = await ask(listener, client_context(identity, anna.certificate))
                assert answer.reply == b"pong"
            assert listener.certificates == [ben.certificate, stranger.certificate, ben.certificate]

    asyncio.run(main())


def test_a_peer_paired_while_listening_is_accepted_without_a_restart(
    anna: Identity, ben: Identity, stranger: Identity
) -> None:
    """trust_certificate acts on the open port; twice does no harm, and who was trusted before still is."""

    async def main() -> None:
        async with Listener(server_context(anna, [ben.certificate])) as listener:
            caller = client_context(stranger, anna.certificate)
            assert (await ask(listener, caller)).reply == b""
            trust_certificate(listener.context, stranger.certificate)
            trust_certificate(listener.context, stranger.certificate)
            assert (await ask(listener, caller)).reply == b"pong"
            assert (await ask(listener, client_context(ben, anna.certificate))).reply == b"pong"

    asyncio.run(main())


def test_what_is_no_certificate_is_refused(anna: Identity) -> None:
    """Rubbish to be trusted, and a key file that vanished, raise our own error."""
    with pytest.raises(StoreError):
        trust_certificate(server_context(anna, []), b"rubbish")
    gone = Identity(NodeId("X"), anna.certificate, anna.certificate_file, anna.key_file.with_name("gone"))
    with pytest.raises(StoreError, match="gone"):
        server_context(gone, [])


def test_the_context_does_not_depend_on_the_python_version(anna: Identity, ben: Identity) -> None:
    """Every setting that matters is set by hand on both kinds of context."""
    for context in (server_context(anna, [ben.certificate]), client_context(anna, ben.certificate)):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_3
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
        assert context.options & ssl.OP_NO_TICKET
        assert context.check_hostname is False
    assert server_context(anna, []).num_tickets == 0
    assert len(client_context(anna, ben.certificate).get_ca_certs(binary_form=True)) <= 1

"""Mutual TLS 1.3 between paired nodes. The peers' certificates are the trust store; there is no authority.

A handshake that succeeds says only that OpenSSL was satisfied. Who it is decides the exact certificate,
compared on every request: ``trust.by_certificate(peer_certificate(transport))``. That catches what a
handshake does not: a peer forgotten meanwhile, since a context never unlearns a certificate, and one that
was let in by a signature instead of by its own name.

Contexts are built by hand: what ``ssl.create_default_context`` sets differs between versions of Python.
"""

import asyncio
import ssl
from collections.abc import Iterable

from pairproxy.core.documents import PROTOCOL
from pairproxy.core.errors import StoreError
from pairproxy.security.identity import Identity

ALPN = f"pairproxy/{PROTOCOL}"
"""The name of the protocol between nodes; its number changes when old nodes could not follow."""


def server_context(identity: Identity, trusted: Iterable[bytes]) -> ssl.SSLContext:
    """The context of the peer port: asks every client for one of the ``trusted`` certificates (DER).

    Raises StoreError if the identity's files cannot be used.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity)
    # A resumed session skips the look at certificates, and with it every revocation.
    context.num_tickets = 0
    for der in trusted:
        trust_certificate(context, der)
    return context


def client_context(identity: Identity, peer: bytes) -> ssl.SSLContext:
    """The context for connections to one peer, which must show exactly the certificate ``peer`` (DER).

    Never share it, or a connector that holds it, between peers. Raises StoreError if the identity's files
    cannot be used.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, identity)
    trust_certificate(context, peer)
    return context


def trust_certificate(context: ssl.SSLContext, der: bytes) -> None:
    """Let ``context`` accept this certificate as well, at once and for its lifetime; twice does no harm.

    Raises StoreError if ``der`` is not a certificate.
    """
    try:
        context.load_verify_locations(cadata=der)
    except ssl.SSLError:
        raise StoreError("This is not a certificate to trust. Pair with that machine again.") from None


def speaks_our_protocol(transport: asyncio.BaseTransport | None) -> bool:
    """Whether both sides of ``transport`` named the same version of the protocol between nodes.

    TLS itself goes on where they did not.
    """
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    return tls is not None and tls.selected_alpn_protocol() == ALPN


def peer_certificate(transport: asyncio.BaseTransport | None) -> bytes | None:
    """The certificate (DER) that the other side of ``transport`` showed; None without TLS."""
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    der: bytes | None = tls.getpeercert(binary_form=True) if tls is not None else None
    return der


def _context(protocol: int, identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is the name
    context.verify_mode = ssl.CERT_REQUIRED
    # A trusted certificate ends the chain by itself, although it is no authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.options |= ssl.OP_NO_TICKET
    context.set_alpn_protocols([ALPN])
    try:
        context.load_cert_chain(identity.certificate_file, identity.key_file)
    except (OSError, ssl.SSLError):
        raise StoreError(
            f"{identity.certificate_file} and {identity.key_file} can no longer be used. "
            "Start pairproxy again; it says what is wrong with them."
        ) from None
    return context

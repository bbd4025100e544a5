"""TLS for clients that show a key: the server proves itself by a certificate, the client by its key.

Contexts are built by hand, as in tls: defaults differ between versions of Python. Clients' libraries are
older than ours, so TLS 1.2 is spoken as well, with forward secrecy and authenticated ciphers only.
"""

import ssl
from pathlib import Path

from pairproxy.core.errors import StoreError

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; those of 1.3 are all good


def key_port_context(file: Path) -> ssl.SSLContext:
    """The context of the key port, with the key and certificate in ``file``. Raises StoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    show(context, file)
    return context


def show(context: ssl.SSLContext, file: Path) -> None:
    """Let connections that begin from now on see the certificate in ``file``. Raises StoreError.

    Takes less than a millisecond. For the thread of the event loop: no handshake may begin halfway.
    """
    try:
        context.load_cert_chain(file)
    except (OSError, ssl.SSLError):
        raise StoreError(f"{file} cannot be used. Remove it and start again; it is made anew.") from None

"""A TLS port in tests, and what it gives to a caller."""

import asyncio
import contextlib
import socket
import ssl
from dataclasses import dataclass, field

from pairproxy.security.tls import peer_certificate

DEADLINE_S = 10.0


@dataclass
class Listener:
    """A TLS port that answers b"pong"; notes what reached the application."""

    context: ssl.SSLContext
    port: int = 0
    received: list[bytes] = field(default_factory=list)
    certificates: list[bytes | None] = field(default_factory=list)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.certificates.append(peer_certificate(writer.transport))
        with contextlib.suppress(OSError, ssl.SSLError):
            self.received.append(await reader.read(100))
            writer.write(b"pong")
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()

    async def __aenter__(self) -> "Listener":
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.context)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        await self.server.wait_closed()


@dataclass
class Answer:
    """What one connection brought; the session is read while it is open."""

    reply: bytes = b""
    session: ssl.SSLSession | None = None
    is_resumed: bool | None = None


def call(port: int, context: ssl.SSLContext | None, session: ssl.SSLSession | None) -> Answer:
    """Say ping on a new connection, with TLS if there is a context. Blocking, for a thread."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as plain:
        if context is None:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            return Answer(plain.recv(100))
        with context.wrap_socket(plain, session=session) as tls:
            tls.sendall(b"ping")
            return Answer(tls.recv(100), tls.session, tls.session_reused)


async def ask(
    listener: Listener, context: ssl.SSLContext | None, session: ssl.SSLSession | None = None
) -> Answer:
    """What the listener gives a caller; a connection that fails gives nothing."""
    try:
        return await asyncio.to_thread(call, listener.port, context, session)
    except ssl.SSLCertVerificationError:
        raise
    except (ssl.SSLError, ConnectionError):
        return Answer()


def assert_refused(context: ssl.SSLContext, caller: ssl.SSLContext | None) -> None:
    """Assert that the port gives ``caller`` no byte, and the application no byte of the caller."""

    async def main() -> None:
        async with Listener(context) as listener:
            assert (await ask(listener, caller)).reply == b""
            assert listener.received == []

    asyncio.run(main())


def bare_client(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """A client that believes anybody and shows nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    return context

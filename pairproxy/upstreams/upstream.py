"""Upstream: one engine or one peer, as the place to which requests go. Foreign errors are translated here."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from pairproxy.config import Limits
from pairproxy.core.errors import BrokenReply, NotTrusted, Unreachable, UpstreamError
from pairproxy.upstreams.connection import Address, Connection, host_header
from pairproxy.upstreams.outgoing import INLINE_BODY_BYTES, Outgoing, request_head, upload
from pairproxy.upstreams.pool import REQUESTS, IdlePool
from pairproxy.upstreams.reply import Reply
from pairproxy.upstreams.sockets import give_away, open_socket
from pairproxy.upstreams.turns import Turns

HANDSHAKE_S = 5.0  # TLS over a LAN takes 5 ms; a busy single-board computer 300
CONNECTIONS_TRIED = 3  # by one request: one that was idle, one that came free meanwhile, and a new one
_BODIES_READ = frozenset({"POST", "PUT", "PATCH", "DELETE"})
"""Methods whose body every server reads; cpp-httplib (llama-server) takes others' for the next request."""


class Reachable(Protocol):
    """Where it answers: every Engine, and whoever knows the addresses of a peer."""

    def address(self, path: str) -> Address:
        """Return (host, port) for a request path."""


class Upstream:
    """One engine or one peer.

    With ``tls`` every connection is encrypted; with ``pin`` (a certificate in DER) the other end must
    prove exactly that certificate before a byte of any request is written to it.
    """

    def __init__(
        self,
        endpoint: Reachable,
        *,
        limits: Limits,
        tls: ssl.SSLContext | None = None,
        pin: bytes | None = None,
        failed: Callable[[], None] | None = None,
    ) -> None:
        """``failed`` is told whenever a request found no way, or its reply broke before the first byte."""
        if pin is not None and tls is None:
            raise ValueError("a pin without TLS would check nothing")
        self._endpoint = endpoint
        self._limits = limits
        self._tls = tls
        self._pin = pin
        self._failed = failed
        self._turns = Turns(limits.connect_timeout_s + HANDSHAKE_S) if pin is not None else None
        self._pool = IdlePool(limits.connections, self._turns)
        self.reused = self.dialled = 0  # requests sent on a connection that was there, and on a new one
        self._open: set[Connection] = set()
        self._all_lost: asyncio.Future[None] | None = None
        self._is_closed = False

    async def send(self, outgoing: Outgoing) -> Reply:
        """Send a request; return its reply once the first body byte, or the end of an empty body, is there.

        Until then another node may still answer. Raises Unreachable, NotTrusted (nothing was sent),
        BrokenReply, BadRequest (the request cannot be written as one). Has no timeout but that of
        connecting: silence is for the caller to judge. Cancelling it aborts the connection.
        """
        head = request_head(outgoing)
        try:
            return await self._send(outgoing, head)
        except UpstreamError:
            if self._failed is not None:
                self._failed()
            raise

    async def _send(self, outgoing: Outgoing, head: bytes) -> Reply:
        address = self._endpoint.address(outgoing.target.partition("?")[0])
        is_reusing = outgoing.is_repeatable and not outgoing.may_switch
        connection = self._pool.take(address) if is_reusing else None
        tried = 0
        while True:
            if connection is None:
                connection = await (self._fresh(address) if is_reusing else self._connect(address))
            was_idle = connection.requests > 0
            if was_idle:
                self.reused += 1
            else:
                self.dialled += 1
            reply = self._begin(connection, outgoing, head)
            try:
                return await self._opened(reply, connection, outgoing)
            except (BrokenReply, NotTrusted):
                tried += 1
                if reply.has_bytes or tried >= CONNECTIONS_TRIED or not was_idle:
                    raise
            connection = None

    async def _fresh(self, address: Address) -> Connection:
        """A connection on which nothing is under way: a new one, or a peer's that comes free sooner."""
        turns = self._turns
        if turns is None:
            return await self._connect(address)
        while (free := await turns.next(address)) is not None:
            if free.is_usable:
                return free
        try:
            return await self._connect(address)
        finally:
            turns.end()

    async def fetch(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        limit_bytes: int,
        timeout_s: float,
    ) -> tuple[int, bytes]:
        """Do one small exchange; return status and decoded body. Adds Host and Content-Length.

        Raises Unreachable, NotTrusted, BrokenReply (also when it takes or holds too much), ReplyTruncated.
        """
        added = [(b"Host", host_header(self._endpoint.address(path.partition("?")[0])))]
        if body is not None:
            added.append((b"Content-Length", b"%d" % len(body)))
        try:
            async with asyncio.timeout(timeout_s):
                reply = await self.send(Outgoing(method, path, (*added, *headers), body))
                return reply.status, await reply.read(limit_bytes)
        except TimeoutError:
            who = _who(self._endpoint.address(path))
            late = f"{who} did not answer within {timeout_s:g} s. See whether it is overloaded."
            raise _alone(BrokenReply(late)) from None

    async def dial(self, address: Address) -> None:
        """Try one address: connect, and see that the pinned key is there. The next request finds it open.

        Raises Unreachable or NotTrusted. Cancelling it closes what was begun.
        """
        self._pool.give(await self._connect(address))

    def drop_idle(self) -> None:
        """Close the connections that carry nothing: after a sleep they are dead without knowing it."""
        self._pool.close()

    def drop(self, is_dead: Callable[[Connection], bool]) -> None:
        """Abort the connections that cannot work any more; a reply that comes over one breaks off."""
        for connection in [one for one in self._open if is_dead(one)]:
            connection.end()

    async def close(self) -> None:
        """Abort all connections and return when they are gone; nothing can be sent any more."""
        self._is_closed = True
        self._pool.close()
        for connection in list(self._open):
            connection.end()
        if self._open:
            self._all_lost = asyncio.get_running_loop().create_future()
            await self._all_lost

    def _begin(self, connection: Connection, outgoing: Outgoing, head: bytes) -> Reply:
        reply = Reply(
            connection, outgoing.method, self._limits, connection.who, may_switch=outgoing.may_switch
        )
        body = b"" if outgoing.body is None else outgoing.body
        is_whole = isinstance(body, bytes) and len(body) <= INLINE_BODY_BYTES
        if outgoing.version < (1, 1) or (outgoing.body is not None and outgoing.method not in _BODIES_READ):
            connection.requests = REQUESTS  # the end of such a reply, or an unread body, is that of both
        connection.begin(reply, head, body if isinstance(body, bytes) and is_whole else None)
        return reply

    async def _opened(self, reply: Reply, connection: Connection, outgoing: Outgoing) -> Reply:
        try:
            if not connection.is_sent:
                await _upload_until_answered(reply, connection, outgoing)
            while not reply.is_open:
                await reply.wait()
            if not (reply.has_body and connection.is_sent):
                reply.raise_failure()
        except BaseException:
            reply.abandon()
            raise
        return reply

    async def _connect(self, address: Address) -> Connection:
        who = _who(address)
        self._refuse_if_closed(who)
        try:
            async with asyncio.timeout(self._limits.connect_timeout_s):
                sock = await open_socket(*address, is_peer=self._tls is not None)
        except (OSError, UnicodeError):  # TimeoutError is an OSError
            why = f"Nothing answers at {who}. See whether it runs there."
            if self._turns is not None:
                self._turns.fail(address, why)
            raise _alone(Unreachable(why)) from None
        connection = Connection(address, self._released, self._lost)
        await self._shake_hands(connection, sock, who)
        self._open.add(connection)
        try:
            self._refuse_if_closed(who)
            if self._pin is not None and connection.peer_certificate() != self._pin:
                raise _not_the_pair(who)
        except UpstreamError:
            connection.abort()
            raise
        return connection

    async def _shake_hands(self, connection: Connection, sock: socket.socket, who: str) -> None:
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: cast(asyncio.Protocol, connection),  # it has what one has
                sock=sock,
                ssl=self._tls,
                server_hostname=self._server_name(connection.address),
                ssl_handshake_timeout=HANDSHAKE_S if self._tls else None,
            )
        except ssl.SSLError:
            raise _alone(_not_the_pair(who)) from None
        except OSError:
            raise _alone(_broke_off(who)) from None
        finally:
            give_away(sock)
        if not connection.is_usable:  # it was lost before anybody could be told
            raise _broke_off(who)

    def _refuse_if_closed(self, who: str) -> None:
        if self._is_closed:
            raise Unreachable(f"The connections to {who} are closed: pairproxy is stopping.")

    def _server_name(self, address: Address) -> str | None:
        if self._tls is None:
            return None
        return address[0] if self._tls.check_hostname else ""

    def _released(self, connection: Connection, is_reusable: bool) -> None:
        if is_reusable and not self._is_closed:
            self._pool.give(connection)
        else:
            connection.abort()

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open and self._all_lost is not None and not self._all_lost.done():
            self._all_lost.set_result(None)


async def _upload_until_answered(reply: Reply, connection: Connection, outgoing: Outgoing) -> None:
    """Send the rest of the body. A refusal that comes first wins; a success waits for the body's end.

    No task group: it waits while it handles an error, which compiled would be the thread's for good.
    """
    work = _send_body(reply, connection, outgoing)
    task = asyncio.get_running_loop().create_task(work, name="upload")
    try:
        while not task.done() and not reply.is_over and not (reply.is_open and reply.status >= 300):
            await reply.wait()
    finally:
        task.cancel()
    await asyncio.wait([task])


async def _send_body(reply: Reply, connection: Connection, outgoing: Outgoing) -> None:
    try:
        await upload(outgoing, connection.write, connection.writable)
        connection.is_sent = True
    except Exception as error:  # noqa: BLE001 what the client's side raised goes to the caller of send()
        reply.fail(error)
    finally:
        reply.wake()


def _who(address: Address) -> str:
    return host_header(address).decode()


def _alone(error: UpstreamError) -> UpstreamError:
    """An error without the foreign one it came of: ``from None`` means nothing where this is compiled."""
    error.__suppress_context__ = True
    return error


def _broke_off(who: str) -> Unreachable:
    return Unreachable(f"{who} broke off the handshake. See what runs there.")


def _not_the_pair(who: str) -> NotTrusted:
    return NotTrusted(f"Not the paired key answers at {who}: nothing was sent. Pair again if it is yours.")

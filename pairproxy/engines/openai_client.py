"""How an engine's Ollama face asks the engine's own OpenAI server: loopback, without patience limits."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
from yarl import URL

from pairproxy.core.errors import BrokenReply, Unreachable

KEEP_ALIVE_S = 4.0  # llama.cpp's server closes idle connections at 5 s
CONNECT_TIMEOUT_S = 5.0  # on loopback: longer means that nobody accepts
REPLY_LIMIT_BYTES = 64 * 1024 * 1024  # a whole reply; 1000 embeddings of 4096 numbers are about 50 MB

Address = Callable[[], tuple[str, int]]
"""Where the OpenAI server answers now: (host, port). It may raise Unreachable while it starts anew."""


class OpenAiClient:
    """Posts to one OpenAI server. A connection that died while idle is replaced without being noticed."""

    def __init__(self, address: Address) -> None:
        self._address = address
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_reuse)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            trace_configs=[trace],
        )

    async def close(self) -> None:
        """Close every connection; requests under way end."""
        await self._session.close()

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send ``body`` to ``path``; the reply's head has arrived, its body has not.

        Leaving the block before the body has ended closes the connection, which tells the engine to
        stop. Raises Unreachable.
        """
        reply = await self._post(path, body)
        try:
            yield reply
        finally:
            if not reply.content.at_eof():
                reply.close()
            reply.release()

    async def _post(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        while True:
            host, port = self._address()
            reused = SimpleNamespace(is_reused=False)
            try:
                return await self._session.post(
                    URL.build(scheme="http", host=host, port=port, path=path),
                    data=body,
                    headers={"Content-Type": "application/json"},
                    allow_redirects=False,
                    trace_request_ctx=reused,
                )
            except (aiohttp.ClientConnectionError, aiohttp.ClientResponseError):
                # a reused connection that broke before a byte is gone from the pool: this loop ends
                if not reused.is_reused:
                    raise Unreachable("the engine does not answer; try again in a few seconds") from None


async def read_whole(reply: aiohttp.ClientResponse) -> bytes:
    """The whole body. Raises BrokenReply if it breaks off or is longer than REPLY_LIMIT_BYTES."""
    body = bytearray()
    try:
        async for piece in reply.content.iter_any():
            body += piece
            if len(body) > REPLY_LIMIT_BYTES:
                raise BrokenReply("the engine's reply is too large; ask for less in one request")
    except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
        raise BrokenReply("the engine ended its reply before it was complete; send it again") from None
    return bytes(body)


async def _note_reuse(
    session: aiohttp.ClientSession,
    context: SimpleNamespace,
    parameters: aiohttp.TraceConnectionReuseconnParams,
) -> None:
    context.trace_request_ctx.is_reused = True

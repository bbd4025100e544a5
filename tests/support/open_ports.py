"""A port with a handler of the test, and an engine that says what it was asked."""

from pairproxy.config import Limits
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.request import HttpRequest
from pairproxy.proxy.server import Handler, PagePort
from pairproxy.responses import Response, StreamResponse
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, ParsedRequest


async def echo(incoming: ParsedRequest, connection: EngineConnection) -> None:
    """Answer with the target."""
    await connection.send(scripts.json_bytes({"target": incoming.target}))


async def hello(_: HttpRequest) -> StreamResponse:
    """An answer that aiohttp writes."""
    return Response(b"hello")


async def open_port(handler: Handler, **options: bool) -> tuple[PagePort, int]:
    """A port with this handler: (port, number)."""
    (sock,) = bind("127.0.0.1", 0, "")
    port = PagePort(handler, Limits(), **options)
    await port.start(sock)
    return port, port_of(sock)

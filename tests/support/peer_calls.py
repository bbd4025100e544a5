"""A node with one peer, and requests as that peer's daemon sends them."""

import contextlib
import json
from collections.abc import AsyncIterator

from pairproxy.config import Limits
from pairproxy.security import tls
from pairproxy.security.identity import Identity
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import FakeEngine, Script
from tests.support.node import Node, identity
from tests.support.raw_client import RawClient, request

CHAT = scripts.ollama_chat([{"done": True}])
STATE = request("GET /pairproxy/state HTTP/1.1", None, host="pairproxy")


def sent(
    body: object = None, *headers: str, path: str = "/api/chat", number: int = 1, host: str = "x"
) -> bytes:
    """A request as a node sends it."""
    content = json.dumps({"model": "m:1"} if body is None else body).encode()
    ours = (f"X-Pairproxy-Request: {number:08x}", "X-Pairproxy-Attempt: 1", "X-Pairproxy-Engine: engine")
    return request(f"POST {path} HTTP/1.1", content, *ours, *headers, host=host)


@contextlib.asynccontextmanager
async def ben_trusting_anna(
    script: Script = CHAT, slots: int = 1, limits: Limits | None = None
) -> AsyncIterator[tuple[Node, FakeEngine]]:
    """A node that anna is paired with: (node, its engine)."""
    async with FakeEngine(script) as engine, Node(engine, name="ben", slots=slots, limits=limits) as ben:
        await ben.open_peer_port(identity("anna"))
        yield ben, engine


async def call(ben: Node, who: Identity | None = None, port: int | None = None) -> RawClient:
    """A connection to ben's peer port, anna's unless somebody else calls."""
    context = tls.client_context(who or identity("anna"), ben.identity.certificate)
    return await RawClient.open(port or ben.peer_port_number, ssl=context, server_hostname="")

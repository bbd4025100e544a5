"""A node with a key port: real keys in a home, a real certificate, clients that trust it."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pairproxy.proxy.key_gate import KeyGate
from pairproxy.proxy.key_port import KeyPort
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.unloading import Unloading
from pairproxy.security.client_authority import AUTHORITY_FILE, DIRECTORY, served
from pairproxy.security.client_keys import ClientKeys
from pairproxy.security.client_tls import key_port_context
from tests.support.fake_engine import FakeEngine, Script
from tests.support.node import ENGINE, Node
from tests.support.raw_client import RawClient

AUTHORITY = "engine.test:11534"
"""By what name the engine is called."""


def trusting(home: Path) -> ssl.SSLContext:
    """A client that was given the certificate of this home."""
    return ssl.create_default_context(cafile=home / DIRECTORY / AUTHORITY_FILE)


class Keyed:
    """The node, its engine, its keys, and how a client reaches the port."""

    def __init__(self, node: Node, engine: FakeEngine, keys: ClientKeys, home: Path, port: KeyPort) -> None:
        self.node, self.engine, self.keys, self.home, self.port = node, engine, keys, home, port
        self.number = 0

    async def client(self, **options: Any) -> RawClient:
        """A connection of a client that trusts the port."""
        return await RawClient.open(
            self.number, ssl=trusting(self.home), server_hostname="localhost", **options
        )


@contextlib.asynccontextmanager
async def keyed(
    script: Script, home: Path, *, queue_timeout_s: float = 10.0, **options: Any
) -> AsyncIterator[Keyed]:
    """A node with an engine of this script, and its key port, open."""
    home.chmod(0o700)
    keys = ClientKeys(home)
    async with FakeEngine(script) as engine, Node(engine, **options) as node:
        route = node._route()
        port = KeyPort(
            node.id, lambda: (ENGINE, "ollama"), node.dispatcher, route, node.limits,
            Unloading(node.residency, route, node._spawn), node.catalogue,
            KeyGate(keys.find, node.dispatcher.now), lambda: queue_timeout_s, lambda _: AUTHORITY,
        )  # fmt: skip
        found = Keyed(node, engine, keys, home, port)
        (sock,) = bind("127.0.0.1", 0, "")
        found.number = port_of(sock)
        await port.start(sock, key_port_context(served(home, (), "anna", ()).file))
        try:
            yield found
        finally:
            await port.stop()

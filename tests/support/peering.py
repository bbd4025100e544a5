"""Daemons of this process whose peers change: what commands do, and what peers see."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from pairproxy.api.client import get_status, trust_changed
from pairproxy.api.schema import DaemonFile
from pairproxy.core.models import NodeId
from pairproxy.security import tls
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.peer_record import PeerRecord
from pairproxy.security.trust import TrustStore
from tests.support.raw_client import RawClient, request


def rights(home: Path, node: NodeId, **changes: object) -> bool:
    """Change what a peer may do, as a command does it; returns whether a daemon heard of it."""
    store = store_of(home)
    store.change(node, lambda record: msgspec.structs.replace(record, **changes))
    return trust_changed(home)


def forget(home: Path, node: NodeId) -> bool:
    """Forget a peer, as a command does it; returns whether a daemon heard of it."""
    assert store_of(home).forget(node)
    return trust_changed(home)


def store_of(home: Path) -> TrustStore:
    """The store of a home, read now."""
    store = TrustStore(home, load_or_create(home).device_id)
    store.load()
    return store


def names_up(home: Path) -> dict[str, bool]:
    """The peers that a daemon knows, and whether they are there."""
    return {node.name: node.is_up for node in get_status(home).nodes if not node.is_self}


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what a daemon says of itself; it is asked in a thread, since it runs in this one."""
    async with asyncio.timeout(20.0):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 another thread sets no event
            await asyncio.sleep(0.01)


async def call(file: DaemonFile, peer: Identity, server: Identity) -> RawClient:
    """A connection of a peer's to the peer port of a daemon in this process."""
    assert file.peer_port is not None
    context = tls.client_context(peer, server.certificate)
    return await RawClient.open(file.peer_port, ssl=context, server_hostname="")


GET_STATE = request("GET /pairproxy/state HTTP/1.1", None, host="pairproxy")


def chat(number: int, tokens: int = 1, host: str = "pairproxy") -> bytes:
    """A request as another node sends it."""
    body = b'{"model":"paced:1b","messages":[{"role":"user","content":"hello"}],"options":{"num_predict":%d}}'
    return request(
        "POST /api/chat HTTP/1.1",
        body % tokens,
        f"X-Pairproxy-Request: {number:08x}",
        "X-Pairproxy-Attempt: 1",
        "X-Pairproxy-Engine: paced",
        host=host,
    )


def paired(home: Path, peer: Identity, **changes: Any) -> None:
    """Let the home trust a peer, as pairing does it."""
    record = PeerRecord(peer.device_id, "carl", peer.certificate, may_use_me=True, i_may_use=True)
    store_of(home).add(msgspec.structs.replace(record, **changes))

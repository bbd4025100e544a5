"""Unloading a model: the engine of the port answers, and every peer that was made to load it is told too."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from pairproxy.core.errors import BrokenReply, PairproxyError
from pairproxy.core.models import ModelName, Place
from pairproxy.core.residency import Residency
from pairproxy.proxy import headers
from pairproxy.proxy.forward import Route
from pairproxy.upstreams import Outgoing, Reply

TOLD_S = 5.0  # a peer that does not take it in this time unloads the model by its own keep_alive
REPLY_BYTES = 64 * 1024  # of an answer that nobody reads

Spawn = Callable[[str, Coroutine[Any, Any, None]], object]
"""Start a named task in the daemon's task group."""


class Unloading:
    """Tells peers to unload what this node's requests made them load."""

    def __init__(self, residency: Residency, route: Route, spawn: Spawn) -> None:
        self._residency = residency
        self._route = route
        self._spawn = spawn

    def tell_peers(
        self, model: ModelName, target: str, raw: headers.Headers, body: bytes
    ) -> tuple[Place, ...]:
        """Send the client's request to every peer that was used for a model; returns at once with where."""
        places = self._residency.places_of(model)
        self._residency.forget(model)
        for place in places:
            self._spawn(f"unload at {place.node[:8]}", self._tell(place, target, raw, body))
        return places

    async def ask(self, place: Place, target: str, raw: headers.Headers, body: bytes) -> Reply:
        """Send the client's request to one peer; its reply. Raises UpstreamError, also after TOLD_S."""
        own = (
            ("Host", "pairproxy"),
            (headers.REQUEST, uuid.uuid4().hex),
            (headers.ATTEMPT, "1"),
            (headers.ENGINE, place.engine),
        )
        outgoing = Outgoing("POST", target, headers.to_peer(raw, body, own), body)
        try:
            async with asyncio.timeout(TOLD_S):
                return await self._route.upstream(place).send(outgoing)
        except TimeoutError:
            raise BrokenReply("The node did not say in time whether it unloads the model.") from None

    async def _tell(self, place: Place, target: str, raw: headers.Headers, body: bytes) -> None:
        with suppress(PairproxyError, TimeoutError):  # the model is let go of there by its own keep_alive
            reply = await self.ask(place, target, raw, body)
            async with asyncio.timeout(TOLD_S):
                await reply.read(REPLY_BYTES)

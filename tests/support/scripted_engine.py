"""A server on loopback that answers GET requests from a table, as an engine of another maker would."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class ScriptedEngine:
    """``replies`` maps a path to its JSON answer (bytes: as they are); other paths get ``unknown``."""

    replies: dict[str, Any]
    unknown: tuple[int, Any] = (404, {"error": "not found"})
    delay_s: float = 0.0
    port: int = 0
    asked: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one request, counting how many are under way."""
        self.asked.append(request.path)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.delay_s)
        finally:
            self.at_once -= 1
        status, reply = (200, self.replies[request.path]) if request.path in self.replies else self.unknown
        body = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        return web.Response(status=status, body=body, content_type="application/json")


@contextlib.asynccontextmanager
async def serving(engine: ScriptedEngine) -> AsyncIterator[ScriptedEngine]:
    """Serve ``engine`` for the block, on a free port at first and on the same one when served again."""
    app = web.Application()
    app.router.add_get("/{path:.*}", engine.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", engine.port, reuse_address=True).start()
    engine.port = runner.addresses[0][1]
    try:
        yield engine
    finally:
        await runner.cleanup()

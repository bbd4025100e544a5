"""How the servers of our own engines are run: aiohttp's, without what it would write into the log.

On a client that leaves, and on a fault, aiohttp logs a traceback whose text may quote a request or a reply.
"""

import logging
import traceback

from aiohttp import web
from aiohttp.typedefs import Handler

BODY_BYTES = 4 * 1024 * 1024  # a window of a million tokens; 64 MiB of JSON hold up the loop for seconds
SHUTDOWN_S = 0.1  # for requests under way at the end; 0 would mean for ever to aiohttp

_log = logging.getLogger(__name__)
_silent = logging.getLogger("pairproxy.http")
_silent.disabled = True


def runner(app: web.Application, *, decodes: bool = False) -> web.AppRunner:
    """What serves ``app``: a client that leaves cancels its handler, faults are told without their text.

    ``decodes``: whether compressed bodies are unpacked, up to the application's client_max_size.
    """
    app.middlewares.append(_told)
    app.on_response_prepare.append(_unnamed)
    return web.AppRunner(
        app,
        access_log=None,
        logger=_silent,
        handler_cancellation=True,
        auto_decompress=decodes,
        shutdown_timeout=SHUTDOWN_S,
    )


async def _unnamed(_: web.Request, response: web.StreamResponse) -> None:
    """Clients see these headers, as those of any engine: who made the server is not for them."""
    response.headers.popall("Server", None)


@web.middleware
async def _told(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except (ConnectionError, web.HTTPException):
        raise  # the client left; or an answer of aiohttp's, as 404
    except Exception as error:
        step = traceback.extract_tb(error.__traceback__)[-1]
        _log.error("a fault of an engine of ours: %s in %s:%d", type(error).__name__, step.name, step.lineno)
        raise

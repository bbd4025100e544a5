"""How a daemon stops: it takes no new work, lets what it has end, and refuses what is too late."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from pairproxy.core.events import DrainEnded, DrainStarted
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher
from pairproxy.proxy.server import SHUTDOWN_S, Port

TAKEN_IN_S = 0.05  # whoever was taken in at the last moment has still to say what it wants
DRAIN_S = 30.0  # replies of agents mostly end within it; a second Ctrl-C ends them at once

_log = logging.getLogger(__name__)

Spawn = Callable[[str, Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]


async def drain(
    dispatcher: Dispatcher,
    scheduler: Scheduler,
    ports: Iterable[Port],
    at_once: asyncio.Event,
    spawn: Spawn,
    *,
    patience_s: float = DRAIN_S,
) -> None:
    """Return when all has ended, ``at_once`` is set, or ``patience_s`` is over; the ports have stopped then.

    A request that still waits is refused with a whole answer; only replies under way are cut off.
    """
    for port in ports:
        port.close()
    await asyncio.sleep(TAKEN_IN_S)
    dispatcher.tell(DrainStarted(dispatcher.now()))
    if _running(scheduler) or scheduler.waiting:
        _log.info(
            "stopping; %s running, %s waiting: they may end within %.0f s, a second Ctrl-C ends them at once",
            _requests(_running(scheduler)),
            _requests(scheduler.waiting),
            patience_s,
        )
    else:
        _log.info("stopping; nothing runs and nothing waits")
    ends = [spawn("until idle", dispatcher.until_idle()), spawn("until told twice", at_once.wait())]
    await asyncio.wait(ends, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
    cut, refused = _running(scheduler), scheduler.waiting
    dispatcher.tell(DrainEnded(dispatcher.now()))
    if cut or refused:
        _log.warning("stopping now; %s cut off, %s refused", _requests(cut), _requests(refused))
    # The refused need a moment to be told; tasks can still be started for the engines of what is cut off.
    await asyncio.gather(*(port.stop(SHUTDOWN_S) for port in ports))


def _running(scheduler: Scheduler) -> int:
    return sum(not one.is_settling for one in scheduler.running)


def _requests(count: int) -> str:
    return f"{count} request{'' if count == 1 else 's'}"

"""A boundary around work that lasts: a fault of ours in one peer's link must not end the whole daemon."""

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

PAUSE_S = 1.0  # before the first restart, doubled with each further one
LONGEST_PAUSE_S = 60.0  # a fault that stays is logged once a minute
WELL_S = 120.0  # after so long without a fault the pauses are short again

_log = logging.getLogger(__name__)


async def restarting(
    name: str,
    work: Callable[[], Coroutine[Any, Any, None]],
    pause_s: float = PAUSE_S,
    longest_s: float | None = None,
) -> None:
    """Run ``work`` until it returns, again after each fault of it; cancellation passes.

    Names the class of a fault and where it was, never its text, which may hold a prompt.
    """
    now = asyncio.get_running_loop().time
    pause = pause_s
    while True:
        began_at = now()
        try:
            return await work()
        except Exception as error:  # noqa: BLE001 whatever it is, the other peers go on
            if now() - began_at > WELL_S:
                pause = pause_s
            told = "%s failed: %s; it starts again in %g s. Please report it."
            _log.error(told, name, where(error), pause)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_S if longest_s is None else longest_s)


def where(error: BaseException) -> str:
    """The class of a fault and where it was, never its text, which may hold a prompt."""
    return ", ".join(_told(one) for one in _leaves(error))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


def _told(error: BaseException) -> str:
    steps = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join([type(error).__name__, *(f"{step.name}:{step.lineno}" for step in reversed(steps))])

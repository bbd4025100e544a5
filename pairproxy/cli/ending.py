"""Commands that start other processes end tidily: SIGTERM and a closed terminal are heard as Ctrl-C is."""

import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

import typer

ENDED_BY_SIGNAL = 143  # what a shell says of a program ended by SIGTERM

Result = TypeVar("Result")


def run_to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Run ``work`` in a loop of its own; a signal cancels it, so that it puts everything away first.

    Raises typer.Exit after SIGTERM or SIGHUP, KeyboardInterrupt after Ctrl-C.
    """
    import asyncio

    async def run() -> Result:
        _end_on_signals()
        return await work

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:  # by a signal; Ctrl-C comes as KeyboardInterrupt
        raise typer.Exit(ENDED_BY_SIGNAL) from None


def _end_on_signals() -> None:
    import asyncio
    import signal

    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and task is not None:
            with contextlib.suppress(NotImplementedError):  # Windows has no such signals to loops
                loop.add_signal_handler(number, task.cancel)

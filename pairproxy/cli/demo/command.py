"""The command: its options, its order of steps, its output."""

import contextlib
import enum
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Json

if TYPE_CHECKING:
    from pairproxy.cli.demo.legs import Result

ENDED_BY_SIGNAL = 143  # what a shell says of a program ended by SIGTERM


class EngineName(enum.StrEnum):
    """Values of --engine."""

    EMBEDDED = "embedded"
    PACED = "paced"


def demo(
    nodes: Annotated[int, typer.Option(min=1, max=8, help="How many nodes to start.")] = 2,
    requests: Annotated[int, typer.Option(min=1, max=64, help="How many sub-agents ask.")] = 5,
    engine: Annotated[
        EngineName,
        typer.Option(
            help="embedded: a small real model; paced: an engine that sleeps as unequal GPUs compute."
        ),
    ] = EngineName.EMBEDDED,
    rounds: Annotated[int, typer.Option(min=1, max=20, help="How often alone and together take turns.")] = 3,
    tokens: Annotated[int, typer.Option(min=8, max=512, help="Length of every reply.")] = 96,
    as_json: Json = False,
) -> None:
    """Run a job of sub-agents on one node and on all, here on this machine, and compare.

    Examples: `pairproxy demo`, `pairproxy demo --json`,
    `pairproxy demo --engine paced --nodes 3 --requests 12`.
    """
    import asyncio

    from pairproxy.cli.demo.legs import Plan, run_demo
    from pairproxy.cli.demo.show import Screen, to_json

    screen = Screen(is_quiet=as_json)
    plan = Plan(nodes, requests, engine.value, rounds, tokens)

    async def run() -> "Result":
        _end_on_signals()
        return await run_demo(plan, screen)

    try:
        result = asyncio.run(run())
    except asyncio.CancelledError:  # by a signal; Ctrl-C comes as KeyboardInterrupt
        raise typer.Exit(ENDED_BY_SIGNAL) from None
    finally:
        screen.close()
    if as_json:
        typer.echo(to_json(result))
    else:
        screen.report(result)


def _end_on_signals() -> None:
    """Let SIGTERM and a closed terminal end the demo as Ctrl-C does: after it has put everything away."""
    import asyncio
    import signal

    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and task is not None:
            with contextlib.suppress(NotImplementedError):  # Windows has no such signals to loops
                loop.add_signal_handler(number, task.cancel)

"""The command: its options, its order of steps, its output."""

import enum
from typing import Annotated

import typer

from pairproxy.cli.ending import run_to_its_end
from pairproxy.cli.options import Json


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
    from pairproxy.cli.demo.legs import Plan, run_demo
    from pairproxy.cli.demo.show import Screen, to_json

    screen = Screen(is_quiet=as_json)
    plan = Plan(nodes, requests, engine.value, rounds, tokens)

    try:
        result = run_to_its_end(run_demo(plan, screen))
    finally:
        screen.close()
    if as_json:
        typer.echo(to_json(result))
    else:
        screen.report(result)

"""A bench of the cluster that runs here: a few small requests to a real model, on this machine and on all.

What was measured is read from the daemon's own records, so that waiting is no service, and compared as the
demo does. The policy is the daemon's.
"""

import secrets
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import typer

from pairproxy.api.client import get_status
from pairproxy.api.results import BenchHere
from pairproxy.api.schema import Status
from pairproxy.cli.bench.asking import Line, ask_all
from pairproxy.cli.bench.rounds import Say
from pairproxy.cli.ending import run_to_its_end
from pairproxy.cli.measuring import recorded, service_of
from pairproxy.cli.options import plain
from pairproxy.cli.printing import counted
from pairproxy.core.accounting.comparison import Comparison, LegResult, compare, explain
from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import NodeId
from pairproxy.core.workload import SimRequest

PROMPT_TOKENS = 100  # small: it is somebody's machine
OUTPUT_TOKENS = 64  # the limit that is sent
MOST_REQUESTS = 32  # of a leg


@dataclass(frozen=True, slots=True)
class Here:
    """The running daemon as far as a bench needs it."""

    home: Path
    port: int
    model: str
    slots: dict[NodeId, int]  # of every node that has the model
    names: dict[NodeId, str]


def bench_here(
    home: Path, model: str | None, requests: int, rounds: int, *, is_agreed: bool, as_json: bool
) -> None:
    """Say what would be sent, send it if that is agreed to, print what came of it. Raises PairproxyError."""
    if requests > MOST_REQUESTS:
        raise PairproxyError(f"It is somebody's machine: --requests {MOST_REQUESTS} at most with --here.")
    here = find(home, get_status(home), model)
    question = (
        f"Send {requests} requests of about {PROMPT_TOKENS} tokens, answered with at most {OUTPUT_TOKENS}, "
        f"to {plain(here.model)}, {rounds} times on this machine alone and {rounds} times on "
        f"{counted(len(here.slots), 'node')}?"
    )
    if not is_agreed:
        if not sys.stdin.isatty():
            raise PairproxyError(f"{question} Nothing was sent: run it again with --yes.")
        typer.confirm(question, abort=True, err=True)
    say: Say = (lambda line: None) if as_json else partial(typer.echo, err=True)
    found = run_to_its_end(_run(here, requests, rounds, say))
    lines = explain(found, {node: plain(name) for node, name in here.names.items()})
    if as_json:
        document = BenchHere(here.model, found, tuple(lines))
        typer.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        typer.echo("\n".join(lines))


def find(home: Path, status: Status, model: str | None) -> Here:
    """Which port, model and nodes. Raises PairproxyError if this machine does not have the model."""
    own = next(node for node in status.nodes if node.is_self)
    served = [
        (engine, replica.model) for engine in own.engines if engine.is_up for replica in engine.replicas
    ]
    chosen = [one for one in served if model in (None, one[1])]
    if not chosen:
        known = ", ".join(plain(name) for _, name in served) or "none"
        raise PairproxyError(f"This machine has no such model to compare with. Models here: {known}.")
    engine, name = chosen[0]
    if engine.port is None:
        raise PairproxyError(f"The engine {engine.engine} has no client port. Give it one: engines.listen.")
    slots: dict[NodeId, int] = {}
    for node in status.nodes:
        for one in node.engines if node.is_up else ():
            if any(replica.model == name for replica in one.replicas):
                slots[NodeId(node.node)] = slots.get(NodeId(node.node), 0) + one.slots
    names = {NodeId(node.node): node.name for node in status.nodes}
    return Here(home, engine.port, name, slots, names)


async def _run(here: Here, requests: int, rounds: int, say: Say) -> Comparison:
    alone: list[LegResult] = []
    together: list[LegResult] = []
    for number in range(1, rounds + 1):
        for legs, where in ((alone, "on this machine alone"), (together, "on all nodes")):
            legs.append(await _leg(here, requests, is_alone=legs is alone))
            took = f"{counted(requests, 'request')} in {legs[-1].makespan_s:.2f} s"
            say(f"round {number} of {rounds}, {where}: {took}")
    return compare(alone, together, here.slots)


async def _leg(here: Here, requests: int, *, is_alone: bool) -> LegResult:
    own = NodeId("here")
    run = f"bench-{secrets.token_hex(4)}"
    line = Line({own: here.port}, here.model, run, run, is_local_only=is_alone, is_limited=True)
    replies = await ask_all([SimRequest(0.0, own, PROMPT_TOKENS, OUTPUT_TOKENS)] * requests, line)
    makespan_s = max(one.ended_s for one in replies) - min(one.asked_s for one in replies)
    records = await recorded(here.home, run, lambda found: len(found) >= requests)
    in_order = sorted(records, key=lambda record: record.arrived_s)  # they are alike: it says nothing
    return LegResult(makespan_s, tuple(map(service_of, in_order)))

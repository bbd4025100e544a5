"""pairproxy bench --levers --here: what can be switched from outside, measured on the real engines.

A client can keep its requests on this machine (routing off) and send few at once (slots off). Prefix affinity
is part of the daemons' scheduler and cannot be switched off for one client, so it is simulated only. Prompts
are made up: as long as those of the run, with the same beginnings in common; the run's text was never kept.
"""

import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from pairproxy.api.client import get_status
from pairproxy.cli.bench.asking import Line, Reply, ask_all
from pairproxy.cli.bench.here import Here, find
from pairproxy.cli.bench.levers import Measured, Say, recorded, show
from pairproxy.cli.ending import run_to_its_end
from pairproxy.cli.options import plain
from pairproxy.cli.printing import counted
from pairproxy.core.advice.levers import compared, together
from pairproxy.core.advice.trial import Trial
from pairproxy.core.errors import BadRequest, PairproxyError
from pairproxy.core.models import NodeId
from pairproxy.core.whatif.recording import Recording
from pairproxy.core.whatif.replay import requests_of
from pairproxy.core.workload import SimRequest

MOST_REQUESTS = 32  # of a leg, as bench --here has it: it is somebody's machine
NONE, ROUTING, SLOTS, BOTH = "none", "routing", "slots", "routing and slots"


@dataclass(frozen=True, slots=True)
class Leg:
    """What a client does in one leg; ``at_once`` None: it sends all that is due."""

    name: str
    is_alone: bool
    at_once: int | None


def bench_levers_here(
    home: Path, run: str | None, model: str | None, rounds: int, *, is_agreed: bool, as_json: bool
) -> None:
    """Say what would be sent, send it if that is agreed to, print what came of it. Raises PairproxyError."""
    recording = recorded(home, run, MOST_REQUESTS)
    models = sorted({one.model for one in recording.requests})
    if len(models) > 1:
        raise BadRequest(
            f"The run asks {counted(len(models), 'model')}, and one can be measured. Without --here all are "
            "simulated; --run names another run."
        )
    here = find(home, get_status(home), model or models[0])
    question = _question(recording, here, rounds)
    if not is_agreed:
        if not sys.stdin.isatty():
            raise PairproxyError(f"{question} Nothing was sent: run it again with --yes.")
        typer.confirm(question, abort=True, err=True)
    say: Say = (lambda line: None) if as_json else (lambda line: typer.echo(line, err=True))
    show(run_to_its_end(measured(recording, here, rounds, say)), as_json=as_json)


def _question(recording: Recording, here: Here, rounds: int) -> str:
    prompts = sum(one.prompt_tokens for one in recording.requests)
    replies = sum(one.output_tokens for one in recording.requests)
    return (
        f"Send {counted(len(recording.requests), 'request')} of {prompts:,} tokens in all, made up, answered "
        f"with {replies:,} at most, to {plain(here.model)}, {4 * rounds} times: {rounds} times each on this "
        f"machine and on {counted(len(here.slots), 'node')}, few and all at once?"
    )


def legs(here: Here) -> tuple[Leg, ...]:
    """With none on, each alone, and both."""
    nodes = len(here.slots)
    return (
        Leg(NONE, True, 1),
        Leg(ROUTING, False, nodes),
        Leg(SLOTS, True, None),
        Leg(BOTH, False, None),
    )


async def measured(recording: Recording, here: Here, rounds: int, say: Say) -> Measured:
    """All legs of a round in turn, so that each is compared with its own. Raises PairproxyError."""
    own = NodeId("here")
    requests = [replace(one, origin=own) for one in requests_of(recording)]
    chosen, found = legs(here), []
    for number in range(1, rounds + 1):
        trials = []
        for leg in chosen:
            trials.append(await _measure(requests, here, leg, own))
            say(f"round {number} of {rounds}, {leg.name}: {trials[-1].makespan_s:.2f} s")
        found.append(trials)
    levers = compared([leg.name for leg in chosen], found)
    return Measured(
        recording.run,
        len(requests),
        False,
        rounds,
        tuple(levers),
        {BOTH: together(levers, [ROUTING, SLOTS], BOTH)},
        tuple(_notes(here)),
    )


async def _measure(requests: list[SimRequest], here: Here, leg: Leg, own: NodeId) -> Trial:
    name = f"bench-{secrets.token_hex(4)}"
    line = Line(
        {own: here.port},
        here.model,
        name,
        name,
        is_local_only=leg.is_alone,
        is_limited=True,
        at_once=leg.at_once,
    )
    return trial_of(await ask_all(requests, line))


def trial_of(replies: list[Reply]) -> Trial:
    """What a client saw, in seconds by its own clock."""
    count = len(replies)
    return Trial(
        makespan_s=max(one.ended_s for one in replies) - min(one.asked_s for one in replies),
        latency_s=sum(one.ended_s - one.asked_s for one in replies) / count,
        ttft_s=sum(one.ttft_s for one in replies) / count,
        hit_rate=sum(one.cached_tokens for one in replies)
        / max(sum(one.prompt_tokens for one in replies), 1),
    )


def _notes(here: Here) -> list[str]:
    nodes = counted(len(here.slots), "node")
    return [
        "Measured with made-up prompts: as long as those of the run, with the same beginnings in common.",
        f"none: this machine alone, one request at a time. routing: {nodes}, as many at once as nodes.",
        f"slots: all that is due at once; the engines have {counted(sum(here.slots.values()), 'slot')}.",
        "Prefix affinity cannot be switched off for one client: see the same without --here, simulated.",
    ]

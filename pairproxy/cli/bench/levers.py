"""pairproxy bench --levers: routing, prefix affinity and slots on the user's workload, alone and together.

The workload is a run that the daemon recorded: sizes, times, and what prompts have in common, never text.
Simulated unless --here is given (levers_here.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import typer

from pairproxy.api.client import get_report
from pairproxy.api.results import BenchLevers
from pairproxy.cli.options import plain
from pairproxy.cli.printing import console, counted, show_table
from pairproxy.core.advice.levers import (
    ALL,
    ALONE,
    ROUTING_AND_PREFIX,
    SWITCHES,
    TIMES,
    Lever,
    Ratio,
    Together,
    compared,
    simulate_switch,
    together,
)
from pairproxy.core.advice.trial import Trial
from pairproxy.core.errors import BadRequest
from pairproxy.core.whatif.recording import Recording
from pairproxy.tui.words import called

MOST_REQUESTS = 200  # of a run, its first ones: some seconds a round
MOST_WORK = 2000  # requests x engines: four seconds a simulation
WORK_S = 0.002  # about, for each of these
QUICK_S = 2.0  # a longer wait is told before it begins
TITLES = ("lever", "run", "times as fast", "request", "times as fast", "TTFT", "hits")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it. ``sums``: what of the gains was compared, in words -> whether they add up."""

    run: str
    requests: int
    is_simulated: bool
    rounds: int
    levers: tuple[Lever, ...]
    sums: dict[str, Together]
    notes: tuple[str, ...]


def bench_levers(home: Path, run: str | None, rounds: int, *, as_json: bool) -> None:
    """Simulate the levers on a recorded run and print what they gain. Raises NoDaemon, PairproxyError."""
    recording = small_enough(recorded(home, run, MOST_REQUESTS))
    say: Say = (lambda line: None) if as_json else (lambda line: typer.echo(line, err=True))
    show(simulated(recording, rounds, say), as_json=as_json)


def recorded(home: Path, run: str | None, most: int) -> Recording:
    """The first ``most`` requests of a run that the daemon recorded. Raises NoDaemon, PairproxyError."""
    recording = get_report(home, run, with_recording=True).recording
    if recording is None or not recording.requests:
        raise BadRequest(
            "There is no run with counted tokens to measure on. Send requests to the port first."
        )
    return replace(
        recording,
        requests=recording.requests[:most],
        left_out=recording.left_out + max(len(recording.requests) - most, 0),
    )


def small_enough(recording: Recording) -> Recording:
    """The first requests of a run, so few that they are simulated within seconds."""
    most = max(MOST_WORK // max(len(recording.places), 1), 1)
    left_out = max(len(recording.requests) - most, 0)
    return replace(recording, requests=recording.requests[:most], left_out=recording.left_out + left_out)


def simulated(recording: Recording, rounds: int, say: Say) -> Measured:
    """Every switch once a round; rounds differ in when the nodes hear of each other. Raises BadRequest."""
    found: list[list[Trial]] = []
    takes_s = WORK_S * len(recording.requests) * len(recording.places) * len(SWITCHES) * rounds
    if takes_s > QUICK_S:
        say(f"simulating {counted(rounds, 'round')} of {len(SWITCHES)}: about {takes_s:.0f} s")
    for seed in range(rounds):
        try:
            found.append([simulate_switch(recording, switch, seed) for switch in SWITCHES])
        except ValueError as error:
            raise BadRequest(plain(str(error))) from None
        say(f"round {seed + 1} of {rounds}: {found[-1][0].makespan_s:.1f} s with no lever on, simulated")
    levers = compared([switch.name for switch in SWITCHES], found)
    sums = {
        ROUTING_AND_PREFIX.name: together(levers, [one.name for one in ALONE[:2]], ROUTING_AND_PREFIX.name),
        ALL.name: together(levers, [one.name for one in ALONE], ALL.name),
    }
    return Measured(
        recording.run,
        len(recording.requests),
        True,
        rounds,
        tuple(levers),
        sums,
        tuple(_notes(recording)),
    )


def _notes(recording: Recording) -> list[str]:
    nodes = {place.node for place in recording.places}
    most = max(place.slots for place in recording.places)
    slots = sum(place.slots for place in recording.places)
    tried = f"{slots} in all" if most > 1 else f"{TIMES} on each engine, which have one now"
    found = [
        "Simulated: the recorded sizes, times and common beginnings, the learned speeds, the real scheduler.",
        f"none: each of {counted(len(nodes), 'node')} in turn, one request at a time on each engine.",
        "routing: the node that finishes it first. prefix affinity: what begins alike goes to one node.",
        f"slots: {tried}. Together, routing knows what each cache holds. All wait in the one queue.",
    ]
    if len(nodes) < 2:
        found.append("There is one node, so routing and prefix affinity have nothing to choose.")
    if recording.left_out:
        found.append(
            f"{counted(recording.left_out, 'request')} left out: not among the first, or not well ended."
        )
    return found


def show(found: Measured, *, as_json: bool) -> None:
    """Print it for people, or as one document."""
    if as_json:
        document = BenchLevers(
            found.run,
            found.requests,
            found.is_simulated,
            found.rounds,
            found.levers,
            found.sums,
            found.notes,
            {name: one.verdict for name, one in found.sums.items()},
        )
        typer.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return
    out = console()
    how = "simulated" if found.is_simulated else "measured"
    run = plain(called(found.run))
    out.print(f"{counted(found.requests, 'request')} of the run {run}, {how}", markup=False)
    show_table(out, TITLES, [_row(one) for one in found.levers], frozenset(("lever",)))
    for name, one in found.sums.items():
        out.print(f"{name}: {one.verdict}", markup=False)
    for line in found.notes:
        out.print(line, markup=False)


def _row(one: Lever) -> tuple[str, ...]:
    return (
        one.name,
        f"{one.makespan_s:.2f} s",
        _told(one.run),
        f"{one.latency_s:.2f} s",
        _told(one.request),
        f"{one.ttft_s:.2f} s",
        f"{one.hit_rate:.0%}",
    )


def _told(ratio: Ratio) -> str:
    """The median; with the range of the rounds where that shows."""
    if f"{ratio.least:.2f}" == f"{ratio.most:.2f}":
        return f"{ratio.value:.2f}"
    return f"{ratio.value:.2f} ({ratio.least:.2f}-{ratio.most:.2f})"

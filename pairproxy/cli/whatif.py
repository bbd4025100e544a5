"""pairproxy whatif: a run as it would have been, with other nodes or another policy."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.printing import console, counted, say

if TYPE_CHECKING:
    from pairproxy.core.whatif.recording import Recording
    from pairproxy.core.whatif.replay import Changes, NewNode, Replayed

QUICK_REQUESTS = 100  # are replayed within about five seconds


def whatif(
    add: Annotated[
        list[str] | None,
        typer.Option(help="A node more: NAME=slots:prefill:decode[:beta], rates in tokens/s. Repeatable."),
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(help="A node less, by its name. Repeatable.")] = None,
    faster: Annotated[
        list[str] | None, typer.Option(help="A node so many times as fast: NAME=2. Repeatable.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="Another routing.policy.")] = None,
    run: Annotated[str | None, typer.Option(help="A run's name, or its id. Default: the last.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--from", help="What `pairproxy report --json` printed, instead of the daemon."),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Replay a recorded run through the scheduler, with nodes added, removed or faster, or another policy.

    Nothing is sent to any engine. How far the simulation is off on the run as it happened is told first.
    Examples: `pairproxy whatif --add box=4:2000:50`, `pairproxy whatif --faster box=2 --policy least-busy`.
    """
    recording = _recording(home_or_default(home), run, file)
    changes = _changes(recording, add or [], remove or [], faster or [], policy)
    if len(recording.requests) > QUICK_REQUESTS:
        typer.echo(f"replaying {len(recording.requests)} requests: up to a minute", err=True)
    found = _replayed(recording, changes)
    if as_json:
        typer.echo(_document(found))
        return
    out = console()
    for line in _lines(recording, found, bool(add or remove or faster or policy)):
        say(out, line)


def _document(found: "Replayed") -> str:
    """All that is printed, as JSON."""
    import msgspec

    from pairproxy.api.results import WhatIf

    told = WhatIf(found, found.model_error, found.is_credible, found.speedup, found.speedup_best)
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def _replayed(recording: "Recording", changes: "Changes") -> "Replayed":
    from pairproxy.core.errors import BadRequest
    from pairproxy.core.whatif.replay import replay

    try:
        return replay(recording, changes)
    except ValueError as error:
        raise BadRequest(plain(str(error))) from None  # names in a file may be anybody's


def _recording(home: Path, run: str | None, file: Path | None) -> "Recording":
    """Read it from the daemon or a file. Raises PairproxyError."""
    from pairproxy.cli.report import fetch
    from pairproxy.cli.report_pictures import read_report
    from pairproxy.core.errors import BadRequest

    report = fetch(home, run, with_recording=True) if file is None else read_report(file)
    if report.recording is None and report.run is not None:
        raise BadRequest(
            "What a replay needs of this run was not kept: the daemon was killed before it was, or the run is"
            " too large. Name another one with --run."
        )
    if report.recording is None:
        raise BadRequest("There is no run to replay. Send requests to the port first, then ask again.")
    return report.recording


def _changes(
    recording: "Recording", add: list[str], remove: list[str], faster: list[str], policy: str | None
) -> "Changes":
    from pairproxy.core.errors import BadRequest
    from pairproxy.core.whatif.replay import Changes

    by_name = {name: node for node, name in recording.names.items()}
    times: dict[str, float] = {}
    for one in faster:
        name, _, by = one.rpartition("=")
        node = by_name.get(name, name)
        if node in times:
            raise BadRequest(f"--faster names {name!r} twice. Name each node once.")
        times[node] = _number(by, one, "NAME=2")
    return Changes(
        added=tuple(_new_node(one) for one in add),
        removed=frozenset(by_name.get(name, name) for name in remove),
        faster=times,
        policy=policy,
    )


def _new_node(text: str) -> "NewNode":
    from pairproxy.core.errors import BadRequest
    from pairproxy.core.whatif.recording import RecordedRates
    from pairproxy.core.whatif.replay import NewNode

    form = "NAME=slots:prefill:decode[:beta], for example box=4:2000:50:0.15"
    name, _, told = text.partition("=")
    parts = told.split(":")
    if not name or len(parts) not in (3, 4):
        raise BadRequest(f"{text!r} does not say a node. Write {form}.")
    slots, prefill, decode, beta = [_number(part, text, form) for part in (*parts, "0.15")[:4]]
    if slots != int(slots):
        raise BadRequest(f"{text!r} does not say whole slots. Write {form}.")
    return NewNode(name, int(slots), RecordedRates(prefill, decode, beta))


def _number(text: str, whole: str, form: str) -> float:
    from pairproxy.core.errors import BadRequest

    try:
        number = float(text)
    except ValueError:
        raise BadRequest(f"{whole!r} does not say a number where one belongs. Write {form}.") from None
    if not 0.0 <= number < 1e9:
        raise BadRequest(f"{whole!r} says a number that no machine has. Write {form}.")
    return number


def _lines(recording: "Recording", found: "Replayed", is_changed: bool) -> list[str]:
    left_out = f" ({found.left_out} left out: they did not end well)" if found.left_out else ""
    shares = ", ".join(
        f"{plain(recording.names.get(node, node[:8]))} {count}" for node, count in found.per_node.items()
    )
    simulated = f"simulated {found.as_recorded_s:.2f} s (off by {found.model_error:.0%})"
    lines = [f"{counted(found.requests, 'request')}{left_out} took {found.recorded_s:.2f} s; {simulated}"]
    if is_changed:
        changed = f"changed, with {found.policy}: {found.changed_s:.2f} s simulated"
        lines.append(f"{changed}, speedup {found.speedup:.2f} against the run as it was")
    else:
        lines.append("nothing was changed: see --add, --remove, --faster and --policy")
    if found.speedup_best is not None and found.best_alone is not None:
        best = plain(recording.names.get(found.best_alone, found.best_alone[:8]))
        lines.append(
            f"speedup {found.speedup_best:.2f} against {best} alone ({found.best_alone_s:.2f} s simulated)"
        )
    lines.append(f"requests on each node: {shares}; {found.hit_rate:.0%} of prompt tokens from a cache")
    if not found.is_credible:
        lines.append(
            "The simulation is too far off on what really happened: do not believe it. Speeds that the daemon"
            " has not measured yet, or somebody who used the machines, make it so."
        )
    return lines

"""pairproxy report: what the last run achieved, next to its bounds."""

from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.printing import console, counted, show_table

if TYPE_CHECKING:
    from pairproxy.api.schema import Report
    from pairproxy.core.accounting.report import RunReport


TITLES = ("node", "requests", "tokens in", "tokens out", "busy")


def report(
    run: Annotated[
        str | None, typer.Option(help="A run's name (header X-Pairproxy-Run). Default: the last.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show the speedup of a run next to its bounds, and which node did what.

    Examples: `pairproxy report`, `pairproxy report --run nightly --json`.
    """
    from pairproxy.api.client import get_report

    found = get_report(home_or_default(home), run)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    out = console()
    if found.run is None:
        out.print("No request has been served yet. Point a tool at the port and come back.")
        return
    show_table(out, TITLES, _rows(found, found.run), frozenset(("node",)))
    for line in _lines(found.run):
        out.print(line, markup=False)


def _rows(found: "Report", run: "RunReport") -> list[tuple[str, ...]]:
    return [
        (
            plain(found.names.get(node, node[:8])),
            str(tally.requests),
            str(tally.prompt_tokens),
            str(tally.output_tokens),
            f"{tally.busy_s:.1f} s",
        )
        for node, tally in run.per_node.items()
    ]


def _lines(run: "RunReport") -> list[str]:
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(run.outcomes.items()))
    lines = [f"{counted(run.requests, 'request')} ({outcomes}) in {run.makespan_s:.2f} s"]
    if run.ttft_p50_s is not None and run.ttft_p90_s is not None:
        lines.append(f"first token after {run.ttft_p50_s:.2f} s (median), {run.ttft_p90_s:.2f} s (p90)")
    if len(run.per_node) > 1:
        slots = f"{counted(run.requests, 'request')}, {counted(run.slots, 'slot')}; equal nodes only"
        lines.append(f"waves bound {run.bound_waves:.2f} ({slots})")
    if run.t1 is not None and run.speedup is not None:
        lines.append(
            f"speedup {run.speedup:.2f} against the best node alone ({run.t1.kind}: {run.t1.value_s:.2f} s)"
        )
    if run.bound_provable is not None and run.efficiency is not None:
        lines.append(f"provable bound {run.bound_provable:.2f}, efficiency {run.efficiency:.0%}")
    return [*lines, *run.notes]

"""What scripts/bench runs: the tables of targets. Exit status 1 if one is missed."""

from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.bench.budget.command import budget
from pairproxy.cli.bench.overhead.command import overhead
from pairproxy.cli.bench.overhead.profiling import profile
from pairproxy.cli.bench.tables import Row, model_notes, print_table, scale_note, to_json
from pairproxy.cli.ending import run_to_its_end
from pairproxy.cli.options import Json

if TYPE_CHECKING:
    from collections.abc import Coroutine

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(overhead)
app.command()(profile)
app.command()(budget)
Rounds = Annotated[int, typer.Option(min=1, max=50, help="How often each case is run.")]


@app.command()
def published(rounds: Rounds = 3, as_json: Json = False) -> None:
    """Five sub-agents on laptop, Spark and 5090: the published table."""
    from pairproxy.cli.bench.published import published_table

    _show("Five sub-agents, minutes", published_table(rounds, _say), as_json)


@app.command()
def schedule(seeds: Rounds = 3, as_json: Json = False) -> None:
    """The scheduler's targets for whole daemons; about eight minutes with three seeds."""
    _show("Whole daemons with paced engines", _schedule(range(1, seeds + 1)), as_json)


@app.command()
def prefixes(rounds: Rounds = 3, as_json: Json = False) -> None:
    """Real prefix hits on two embedded engines: blind against ours."""
    from pairproxy.cli.bench.prefixes import prefix_table
    from pairproxy.cli.progress import fetch_progress

    with fetch_progress() as fetching:
        _show("Shared prefixes, embedded engines", prefix_table(rounds, _say, fetching), as_json)


@app.command()
def watched(pairs: Rounds = 6, as_json: Json = False) -> None:
    """What being watched costs a daemon, busy and idle; about four minutes with six pairs."""
    from pairproxy.cli.bench.watched import watched_table

    _show("A daemon that is watched", watched_table(pairs, _say), as_json)


@app.command()
def kept(as_json: Json = False) -> None:
    """What history costs at each request, at a hundred a second, and on the disk; about a minute."""
    from pairproxy.cli.bench.kept import kept_table

    _show("History", kept_table(), as_json)


@app.command()
def soak(
    requests: Annotated[int, typer.Option(min=40_000, help="How many are accounted for.")] = 1_000_000,
    as_json: Json = False,
) -> None:
    """That nothing grows while a million requests are accounted for; about six minutes."""
    from pairproxy.cli.bench.soak import soak_table

    _show("Ledger, counts and history, soaked", soak_table(requests, _say), as_json)


async def _schedule(seeds: range) -> tuple[list[Row], list[str]]:
    from pairproxy.cli.bench import decisions
    from pairproxy.cli.bench import schedule as cases

    rows = decisions.decisions()
    for row in rows:
        _say(f"{row.experiment}: {row.value:.1f} ms")
    rows.append(await decisions.idle())
    rows += await cases.bursts(seeds, _say)
    rows += await cases.origins(seeds, _say)
    rows += await cases.agents(seeds[:1], _say)  # hundreds of steps: one draw is enough, and takes a minute
    return rows, [
        *model_notes(rows),
        scale_note(cases.SHORT),
        f"Bursts of 32 and more run {cases.LONG:g} times as fast, one chain {cases.DIRECT:g}.",
        f"Medians over {len(seeds)} seeds, every leg on fresh daemons that know no length of a reply.",
    ]


def _show(title: str, work: "Coroutine[None, None, tuple[list[Row], list[str]]]", as_json: bool) -> None:
    rows, notes = run_to_its_end(work)
    if as_json:
        typer.echo(to_json(title, rows, notes))
    else:
        print_table(title, rows, notes)
    if any(row.is_met is False for row in rows):
        raise typer.Exit(1)


def _say(line: str) -> None:
    typer.echo(line, err=True)


if __name__ == "__main__":
    app()

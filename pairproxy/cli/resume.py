"""pairproxy resume: take work from other machines again."""

import typer

from pairproxy.cli.drain import print_json
from pairproxy.cli.options import Home, Json, home_or_default


def resume(home: Home = None, as_json: Json = False) -> None:
    """Take work from other machines again, after `pairproxy drain`. Exit status 3 if no daemon runs.

    Says so where they still get nothing: because of peers.share in config.toml, or on battery.

    Examples: `pairproxy resume`, `pairproxy resume --json`.
    """
    from pairproxy.api.client import drain_wish
    from pairproxy.api.offering import DrainWish

    answer = drain_wish(home_or_default(home), DrainWish("resume"))
    if as_json:
        print_json(answer)
    elif answer.offer.withheld:
        typer.echo(f"Not drained, but other machines still get no slot here. {answer.offer.why}")
    else:
        typer.echo("Other machines get slots here again.")

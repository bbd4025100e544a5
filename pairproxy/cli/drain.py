"""pairproxy drain: take no new work from other machines."""

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, Json, home_or_default
from pairproxy.cli.printing import counted

if TYPE_CHECKING:
    from pairproxy.api.offering import DrainAnswer

LOOK_S = 0.5  # between two looks at what still runs; a person waits for it, and a look costs a millisecond


def seconds(text: str) -> float:
    """``90s``, ``30m``, ``2h``, ``1h30m``, ``7d``. Raises BadParameter for anything else."""
    from pairproxy.api.offering import LONGEST_DRAIN_S
    from pairproxy.cli.report_history import UNITS

    parts = re.findall(r"(\d{1,9})([smhdw])", text.strip().lower())
    if not parts or "".join(map("".join, parts)) != text.strip().lower():
        raise typer.BadParameter(f"{text!r} is no time: write 90s, 30m, 2h, 1h30m or 7d.")
    found = float(sum(int(count) * UNITS[unit] for count, unit in parts))
    if not 0 < found <= LONGEST_DRAIN_S:
        raise typer.BadParameter("Between one second and a year, please; leave --for out to drain for good.")
    return found


For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Resume by itself after so long: 90s, 30m, 2h, 7d."),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Return when nothing of other machines runs here any more.")
]


def drain(lasts: For = None, wait: Wait = False, home: Home = None, as_json: Json = False) -> None:
    """Take no new work from other machines. Exit status 3 if no daemon runs.

    What they have running here is finished, and programs of this machine are served as ever, also by other
    machines. It stays so over a restart, until `pairproxy resume` or the end of --for.

    Examples: `pairproxy drain`, `pairproxy drain --for 2h`, `pairproxy drain --wait`.
    """
    from pairproxy.api.client import drain_wish
    from pairproxy.api.offering import DrainWish, until

    wish = DrainWish("drain", None if lasts is None else seconds(lasts))
    directory = home_or_default(home)
    answer = drain_wish(directory, wish)
    if wait and answer.offer.guests:
        answer = _waited(directory, answer)
    if as_json:
        print_json(answer)
        return
    typer.echo(f"Drained: other machines get no slot here{until(answer.offer.until_unix)}.")
    typer.echo(
        f"{counted(answer.offer.guests, 'request')} of theirs still run{'s' * (answer.offer.guests == 1)}."
        if answer.offer.guests
        else "Nothing of theirs runs here."
    )
    typer.echo("`pairproxy resume` lets them come again.")


def _waited(home: Path, answer: "DrainAnswer") -> "DrainAnswer":
    """Wait until nothing of peers runs, or the drain is over; progress to standard error."""
    from pairproxy.api.client import drain_wish
    from pairproxy.api.offering import DrainWish
    from pairproxy.core.errors import PairproxyError

    told = None
    while answer.offer.guests and answer.offer.withheld:
        if answer.offer.guests != told:
            told = answer.offer.guests
            print(f"{counted(told, 'request')} of other machines left", file=sys.stderr, flush=True)
        time.sleep(LOOK_S)
        answer = drain_wish(home, DrainWish("look"))
    if answer.offer.guests:
        raise PairproxyError(
            "The drain was ended while work of other machines was still running. Drain it again to wait."
        )
    return answer


def print_json(answer: "DrainAnswer") -> None:
    """The answer as it came."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())

"""Figures beside their targets, as scripts/bench prints them: target, value, the model's value, verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from pairproxy.cli.printing import console, show_table

TITLES = ("experiment", "target", "measured", "model", "verdict")
AGREEMENT = 0.10  # of modelled and measured figures; what differs by more is said
Sense = Literal["<=", ">=", "<", ""]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. ``sense`` says on which side of ``target`` it should be; "": it is told for comparison."""

    experiment: str
    value: float
    sense: Sense = ""
    target: float | None = None
    unit: str = ""
    modelled: float | None = None  # the simulator's figure of the same
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None: there is none."""
        if self.target is None or not self.sense:
            return None
        if self.sense == ">=":
            return self.value >= self.target
        return self.value <= self.target if self.sense == "<=" else self.value < self.target

    @property
    def verdict(self) -> str:
        """In a word."""
        return {None: "", True: "met", False: "MISSED"}[self.is_met]


def told(value: float | None, unit: str) -> str:
    """A figure with its unit; minutes are written as clocks are."""
    if value is None:
        return ""
    if unit == "min":
        return "{}:{:02d}".format(*divmod(round(value), 60))
    if unit == "%":
        return f"{value:.1%}"
    return f"{value:.2f}{' ' if unit else ''}{unit}"


def scale_note(fast_forward: float) -> str:
    """What a person must know of times that were fast-forwarded."""
    return (
        f"Engines run {fast_forward:g} times as fast as told here; times are scaled back. Network, daemons "
        f"and the scheduler's own waits and limits are not, so each of their milliseconds counts as "
        f"{fast_forward:g}."
    )


def model_notes(rows: Sequence[Row]) -> list[str]:
    """Where simulator and daemons differ by more than AGREEMENT, and why that can be."""
    apart = [
        f"{row.experiment}: model and measurement differ by {abs(row.modelled / row.value - 1):.0%}."
        for row in rows
        if row.modelled is not None and abs(row.modelled / row.value - 1) > AGREEMENT
    ]
    why = "Near a tie in the plan milliseconds decide, and a makespan hangs on a few long replies."
    return [*apart, *([why] if apart else [])]


def print_table(title: str, rows: Sequence[Row], notes: Sequence[str]) -> None:
    """For people, on standard output."""
    out = console()
    out.print(title, markup=False)
    cells = [
        (
            row.experiment,
            f"{row.sense} {told(row.target, row.unit)}".strip(),
            told(row.value, row.unit),
            told(row.modelled, row.unit),
            row.verdict,
        )
        for row in rows
    ]
    show_table(out, TITLES, cells, frozenset(("experiment", "verdict")))
    for line in (*(f"{row.experiment}: {row.note}" for row in rows if row.note), *notes):
        out.print(line, markup=False)


def to_json(title: str, rows: Sequence[Row], notes: Sequence[str]) -> str:
    """For machines."""
    found = [{**msgspec.to_builtins(row), "is_met": row.is_met} for row in rows]
    document = {"title": title, "rows": found, "notes": list(notes)}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()

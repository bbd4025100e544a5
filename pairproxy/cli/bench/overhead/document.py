"""The result as one document for machines, and read back from it."""

from dataclasses import asdict

import msgspec

from pairproxy.cli.bench.overhead.cases import CASES, Case
from pairproxy.cli.bench.overhead.figures import Figures, Table
from pairproxy.cli.bench.overhead.gates import gates


class Entry(msgspec.Struct, frozen=True):
    """One target at one workload."""

    target: str
    case: str
    figures: Figures


class Document(msgspec.Struct, frozen=True):
    """All that was measured, where, and how.

    ``abouts``: each target in words; ``skipped``: those without figures, and why.
    """

    facts: dict[str, str | int | float]
    rounds: int
    seconds: float
    abouts: dict[str, str]
    skipped: dict[str, str]
    entries: list[Entry]

    @property
    def table(self) -> Table:
        """By target and case."""
        return {(one.target, one.case): one.figures for one in self.entries}

    def cases(self) -> list[Case]:
        """The workloads that were measured, in their order."""
        names = {one.case for one in self.entries}
        return [case for case in CASES if case.name in names]

    def targets(self, case: str) -> list[str]:
        """Those that have figures of it, in the order of measuring."""
        return [one.target for one in self.entries if one.case == case]


def to_json(document: Document) -> str:
    """With the gates beside it; they are not read back but judged anew."""
    judged = [{**asdict(gate), "verdict": gate.verdict} for gate in gates(document.table)]
    told = {**msgspec.to_builtins(document), "gates": judged}
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def from_json(text: str) -> Document:
    """A document of to_json(). Raises msgspec.DecodeError, also for one that is another."""
    return msgspec.json.decode(text, type=Document)

"""The figures in README.md and docs/performance.md: between two marks, written from a document."""

from collections.abc import Sequence
from pathlib import Path

from pairproxy.cli.bench.overhead.document import Document
from pairproxy.cli.bench.overhead.figures import Figures, Table, value_of
from pairproxy.cli.bench.overhead.gates import gates
from pairproxy.cli.bench.overhead.showing import GATE_TITLES, gate_rows, notes, table_of
from pairproxy.cli.printing import counted

BEGIN, END = "<!-- overhead: written by scripts/bench overhead --write -->", "<!-- overhead: end -->"
README, PAGE = "README.md", "docs/performance.md"
SUMMARY_TITLES = (
    "", "first byte, one client", "small JSON per CPU second", "CPU s per 100k chunks, 512 streams",
    "first byte, 512 streams", "peak memory, 512 streams",
)  # fmt: skip


class NoMarks(Exception):
    """A page has no place for the figures."""


def write(document: Document, root: Path) -> None:
    """Put the figures into both pages. Raises NoMarks."""
    for name, text in ((README, summary(document)), (PAGE, details(document))):
        path = root / name
        path.write_text(placed(path.read_text(encoding="utf-8"), text, name), encoding="utf-8")


def placed(page: str, text: str, name: str) -> str:
    """The page with ``text`` between its marks. Raises NoMarks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoMarks(f"{name} has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def details(document: Document) -> str:
    """All tables and gates, as Markdown."""
    parts = [_table(GATE_TITLES, gate_rows(gates(document.table)))]
    for case in document.cases():
        parts.append(f"**{case.name}**: {case.about}\n")
        parts.append(_table(*table_of(document, case)))
    parts.append("\n".join(f"{line}  " for line in notes(document)) + "\n")
    return "\n".join(parts)


def summary(document: Document) -> str:
    """A line for each target: what a reader of the README wants to know."""
    names = [name for name in document.targets("json-64") if name != "direct"]
    table = _table(SUMMARY_TITLES, [(name, *_summary_of(document.table, name)) for name in names])
    facts, rounds = document.facts, counted(document.rounds, "round")
    python = f"Python {facts['python']} ({facts['python_build']}), " if "python_build" in facts else ""
    return (
        f"{table}\nMedians of {rounds} of {document.seconds:g} s; "
        f"{python}{facts['cores']} cores, {facts.get('cpu', '')}, load {facts['load']} when it began.\n"
    )


def _summary_of(table: Table, name: str) -> tuple[str, ...]:
    one, many = table.get((name, "json-1")), table.get((name, "json-64"))
    streams = table.get((name, "paced-512"))
    return (
        _shown(one, "first_byte_p50_us", 1e-3, "ms"),
        _shown(many, "requests_per_cpu_s", 1.0, ""),
        _shown(streams, "cpu_s_per_100k_chunks", 1.0, "s"),
        _shown(streams, "first_byte_p50_us", 1e-3, "ms"),
        _shown(streams, "peak_mb", 1.0, "MB"),
    )


def _shown(figures: Figures | None, field: str, factor: float, unit: str) -> str:
    value = value_of(figures, field)
    if value is None:
        return "none"
    scaled = value * factor
    return f"{scaled:,.0f} {unit}".strip() if scaled >= 10 else f"{scaled:.2f} {unit}".strip()


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)

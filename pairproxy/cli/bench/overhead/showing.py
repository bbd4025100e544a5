"""The result for people: a table for each workload, what was promised, and on which machine it was."""

from collections.abc import Sequence

from pairproxy.cli.bench.overhead.cases import Case
from pairproxy.cli.bench.overhead.document import Document
from pairproxy.cli.bench.overhead.figures import Figures, ratio, value_of
from pairproxy.cli.bench.overhead.gates import Gate, gates
from pairproxy.cli.printing import console, counted, show_table

NGINX, PLAIN = "nginx", "pass-through"  # what ratios are against
PLAIN_COLUMNS = 140  # where there is no terminal, tables are not broken into blocks for one
JSON_TITLES = (
    "target", "req/s", "first byte", "p99", "x nginx", "x plain",
    "CPU s/1,000", "x nginx", "x plain", "peak MB", "errors",
)  # fmt: skip
STREAM_TITLES = (
    "target", "first byte", "p99", "x nginx", "transit", "p99",
    "CPU s/100k", "x nginx", "x plain", "peak MB", "errors",
)  # fmt: skip
STALLED_TITLES = ("target", "first byte", "peak MB", "gained MB", "errors")
GATE_TITLES = ("promise", "measured", "must", "ambitious", "stretch", "verdict")
Rows = list[tuple[str, ...]]


def print_document(document: Document) -> None:
    """For a terminal, on standard output."""
    out = console()
    if not out.is_terminal:
        out.width = max(out.width, PLAIN_COLUMNS)
    for case in document.cases():
        out.print(f"\n{case.name}: {case.about}", markup=False, style="bold")
        titles, rows = table_of(document, case)
        show_table(out, titles, rows, frozenset(("target",)))
    out.print("")
    show_table(out, GATE_TITLES, gate_rows(gates(document.table)), frozenset(("promise", "verdict")))
    for line in notes(document):
        out.print(line, markup=False)


def table_of(document: Document, case: Case) -> tuple[Sequence[str], Rows]:
    """Titles and rows of one workload."""
    table = document.table
    nginx, plain = table.get((NGINX, case.name)), table.get((PLAIN, case.name))
    named = [(name, table[name, case.name]) for name in document.targets(case.name)]
    if case.is_stalled:
        return STALLED_TITLES, [_stalled_row(name, one) for name, one in named]
    if case.is_stream:
        return STREAM_TITLES, [_stream_row(name, one, nginx, plain) for name, one in named]
    return JSON_TITLES, [_json_row(name, one, nginx, plain) for name, one in named]


def gate_rows(found: Sequence[Gate]) -> Rows:
    """What was promised, and what came of it."""
    return [
        (
            gate.name,
            "" if gate.value is None else f"{_told(gate.value)} {gate.unit}".strip(),
            *(_bound(gate, bound) for bound in (gate.must, gate.ambitious, gate.stretch)),
            gate.verdict,
        )
        for gate in found
    ]


def notes(document: Document) -> list[str]:
    """What stands below."""
    facts = document.facts
    machine = ", ".join(f"{name} {facts[name]}" for name in facts if name not in ("arguments", "cpu"))
    abouts = "; ".join(f"{name}: {about}" for name, about in document.abouts.items())
    skipped = [f"{name}: SKIPPED, {why}" for name, why in document.skipped.items()]
    return [
        f"Medians of {counted(document.rounds, 'round')} in turn, {document.seconds:g} s each.",
        "Targets on one core, upstream and load generator on the other.",
        f"{abouts}.",
        f"{facts.get('cpu', '')}: {machine}.",
        *skipped,
    ]


def _json_row(name: str, one: Figures, nginx: Figures | None, plain: Figures | None) -> tuple[str, ...]:
    cpu_s = one.cpu_s_per_1000_requests
    return (
        name, f"{one.requests_per_s:,.0f}", _us(one.first_byte_p50_us), _us(one.first_byte_p99_us),
        _times(one.first_byte_p50_us, value_of(nginx, "first_byte_p50_us")),
        _times(one.first_byte_p50_us, value_of(plain, "first_byte_p50_us")),
        _told(cpu_s),
        _times(cpu_s, value_of(nginx, "cpu_s_per_1000_requests")),
        _times(cpu_s, value_of(plain, "cpu_s_per_1000_requests")),
        _told(one.peak_mb), _errors(one),
    )  # fmt: skip


def _stream_row(name: str, one: Figures, nginx: Figures | None, plain: Figures | None) -> tuple[str, ...]:
    cpu_s = one.cpu_s_per_100k_chunks
    return (
        name, _us(one.first_byte_p50_us), _us(one.first_byte_p99_us),
        _times(one.first_byte_p50_us, value_of(nginx, "first_byte_p50_us")),
        _us(one.transit_p50_us), _us(one.transit_p99_us), _told(cpu_s),
        _times(cpu_s, value_of(nginx, "cpu_s_per_100k_chunks")),
        _times(cpu_s, value_of(plain, "cpu_s_per_100k_chunks")),
        _told(one.peak_mb), _errors(one),
    )  # fmt: skip


def _stalled_row(name: str, one: Figures) -> tuple[str, ...]:
    return name, _us(one.first_byte_p50_us), _told(one.peak_mb), _told(one.grown_mb), _errors(one)


def _errors(one: Figures) -> str:
    """Requests that failed, and those that had no first byte at the end."""
    return f"{one.errors}+{one.unanswered} unanswered" if one.unanswered else str(one.errors)


def _us(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f} us" if value < 1e3 else f"{_told(value / 1e3)} ms"


def _told(value: float | None) -> str:
    """Three digits that say something."""
    if not value:
        return "" if value is None else "0"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"


def _times(value: float | None, other: float | None) -> str:
    times = ratio(value, other)
    return "" if times is None else f"{times:.2f}"


def _bound(gate: Gate, bound: float | None) -> str:
    return "" if bound is None else f"{'>=' if gate.is_least else '<='} {bound:g}"

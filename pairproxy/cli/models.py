"""pairproxy models: which node holds which model, which differences matter, and what helps."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.printing import console, counted, say, show_table

if TYPE_CHECKING:
    from rich.console import Console

    from pairproxy.api.models import ModelCell, ModelMatrix, ModelRow

Pattern = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="Only these, each node on a line of its own; * and ? stand for text. May be given again.",
        show_default=False,
    ),
]
DETAILS = ("node", "is", "engine", "content", "window", "slots", "reads/writes")
LEFT = frozenset(("node", "is", "engine", "content"))
WORDS = {"same": "same", "different": "DIFFERS", "unknown": "unknown", "missing": "-", "away": "away"}
LETTERS = {"same": "S", "different": "D", "unknown": "?", "missing": "-", "away": "a"}
LEGEND = {
    "same": "same: the same content, requests go to either",
    "different": "DIFFERS: other content, never mixed",
    "unknown": "unknown: its engine does not say, so never mixed",
    "missing": "-: not there",
    "away": "away: its node or engine does not answer",
}
COLD = "cold: not loaded, so its first request waits for that"
ALONE = (
    "No machine is paired, so no balancing is possible: `pairproxy pair` here, `pairproxy join CODE` there."
)
NAME = "NAME"  # of each model of which the same is said
CONTENT_CHARACTERS = 12  # where no quantization is told: the digits that `ollama list` shows


def models(model: Pattern = None, home: Home = None, as_json: Json = False) -> None:
    """Show which node holds which model: the same, another content, or none; what that costs; what helps.

    Examples: `pairproxy models`, `pairproxy models --model 'qwen*'`, `pairproxy models --json`.
    """
    from pairproxy.api.client import get_models

    found = get_models(home_or_default(home))
    rows = _wanted(found, model or [])
    if as_json:
        import msgspec

        told = msgspec.structs.replace(found, models=rows)
        typer.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
        return
    out = console()
    if not rows:
        say(out, _nothing(found, model or []))
    elif model:
        for number, row in enumerate(rows):
            if number:
                out.print()
            _show_details(out, found, row)
    else:
        _show_matrix(out, found, rows)
    if len(found.nodes) == 1 and not model:
        say(out, ALONE)
    if found.left_out:
        say(
            out,
            f"{counted(found.left_out, 'more model')}, held by the fewest nodes, left out",
        )


def _wanted(found: "ModelMatrix", patterns: Sequence[str]) -> "tuple[ModelRow, ...]":
    from pairproxy.core.models import ModelName
    from pairproxy.core.replicas import matches

    return tuple(row for row in found.models if not patterns or matches(ModelName(row.model), patterns))


def _nothing(found: "ModelMatrix", patterns: Sequence[str]) -> str:
    if found.models:
        asked = " or ".join(map(plain, patterns))
        return f"No model is called {asked}. `pairproxy models` lists {counted(len(found.models), 'model')}."
    return "No engine of any node lists a model. Get one, e.g. `ollama pull llama3.2:1b`."


# --- the matrix -----------------------------------------------------------------------------------------


def _show_matrix(out: "Console", found: "ModelMatrix", rows: "Sequence[ModelRow]") -> None:
    """With words where they fit, with letters where those fit, else a block for each model."""
    names = [_name(found, node) for node in found.nodes]
    words = [[plain(row.model), *map(_word, row.cells)] for row in rows]
    letters = [[plain(row.model), *map(_letter, row.cells)] for row in rows]
    numbers = [str(number) for number in range(1, len(names) + 1)]
    if _width(["model", *names], words) <= out.width:
        _print(out, ["model", *names], words)
        say(out, _legend(rows, WORDS))
    elif _width(["model", *numbers], letters) <= out.width:
        say(out, "  ".join(f"{number}={name}" for number, name in zip(numbers, names, strict=True)))
        _print(out, ["model", *numbers], letters)
        say(out, _legend(rows, LETTERS))
    else:
        for row in rows:
            _show_block(out, found, row)
    # With one node, what it serves has nobody to share with: ALONE says so of all.
    told = [row for row in rows if len(found.nodes) > 1 or not row.replicas]
    for alike, lines in _told_alike(told).items():
        out.print()
        say(out, ", ".join(alike))
        for line in lines:
            say(out, line)


def _told_alike(rows: "Sequence[ModelRow]") -> dict[tuple[str, ...], tuple[str, ...]]:
    """Models -> what is said of each of them. Of several NAME stands for the model's."""
    alike: dict[tuple[str, ...], list[ModelRow]] = {}
    for row in rows:
        if lines := tuple(_notes(row)):
            alike.setdefault(tuple(line.replace(row.model, NAME) for line in lines), []).append(row)
    return {
        tuple(plain(row.model) for row in several): lines if len(several) > 1 else tuple(_notes(several[0]))
        for lines, several in alike.items()
    }


def _name(found: "ModelMatrix", node: str) -> str:
    name = plain(found.names.get(node, node[:8])) or node[:8]
    return f"{name} (away)" if node in found.away else name


def _word(cell: "ModelCell") -> str:
    parts = [WORDS[cell.state]]
    if cell.state in ("same", "different", "unknown"):
        if cell.decode_tokens_per_s is not None:
            parts.append(f"{cell.decode_tokens_per_s:.0f}/s")
        if not cell.is_loaded:
            parts.append("cold")
    return " ".join(parts)


def _letter(cell: "ModelCell") -> str:
    letter = LETTERS[cell.state]
    return letter.lower() if letter in "SD" and not cell.is_loaded else letter


def _legend(rows: "Iterable[ModelRow]", signs: dict[str, str]) -> str:
    """What the signs that were used mean."""
    cells = [cell for row in rows for cell in row.cells]
    used = [state for state in LEGEND if any(cell.state == state for cell in cells)]
    is_cold = any(cell.state in ("same", "different") and not cell.is_loaded for cell in cells)
    if signs is WORDS:
        told = [LEGEND[state] for state in used]
        told.append("45/s: tokens a second of one request alone")
        return "; ".join([*told, COLD] if is_cold else told)
    told = [f"{signs[state]} {LEGEND[state].partition(': ')[2]}" for state in used]
    small = ["small letter: " + COLD.removeprefix("cold: ")] if is_cold else []
    return "; ".join([*told, *small, "speeds: --model NAME"])


def _width(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    from rich.cells import cell_len

    columns = zip(titles, *rows, strict=True)
    return sum(max(map(cell_len, column)) + 2 for column in columns)


def _print(out: "Console", titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    show_table(out, titles, rows, frozenset(titles))


def _show_block(out: "Console", found: "ModelMatrix", row: "ModelRow") -> None:
    say(out, plain(row.model))
    for state in LEGEND:
        if names := [_name(found, cell.node) for cell in row.cells if cell.state == state]:
            say(out, f"  {state}: {', '.join(names)}")


# --- one model ------------------------------------------------------------------------------------------


def _show_details(out: "Console", found: "ModelMatrix", row: "ModelRow") -> None:
    say(
        out,
        f"{plain(row.model)}: balanced among {counted(row.replicas, 'node')}; speeds in tokens/s",
    )
    show_table(out, DETAILS, (_detail(found, cell) for cell in row.cells), LEFT)
    for line in _notes(row):
        say(out, line)


def _detail(found: "ModelMatrix", cell: "ModelCell") -> tuple[str, ...]:
    if cell.engine is None:
        return (_name(found, cell.node), WORDS[cell.state], *[""] * 5)
    is_cold = cell.state != "away" and not cell.is_loaded
    return (
        _name(found, cell.node),
        WORDS[cell.state] + (" cold" if is_cold else ""),
        plain(cell.engine),
        plain(cell.quantization or cell.identity.removeprefix("sha256:"))[:CONTENT_CHARACTERS],
        f"{cell.context_tokens:,}" if cell.context_tokens is not None else "?",
        str(cell.slots),
        _speeds(cell),
    )


def _speeds(cell: "ModelCell") -> str:
    """Tokens a second of one request alone: of its prompt, of its reply."""
    if cell.prefill_tokens_per_s is None or cell.decode_tokens_per_s is None:
        return "?"
    return f"{cell.prefill_tokens_per_s:.0f} / {cell.decode_tokens_per_s:.0f}"


def _notes(row: "ModelRow") -> Iterator[str]:
    yield from (f"  {plain(difference)}" for difference in row.differences)
    if row.costs:
        yield f"  costs: {plain(row.costs)}"
    if row.fix:
        yield f"  fix:   {plain(row.fix)}"

"""Models: whether those of one name are the same on all nodes. What is said is that of `pairproxy models`."""

from collections.abc import Iterator, Sequence

from pairproxy.api.diagnosis import Finding
from pairproxy.api.models import ModelMatrix, ModelRow
from pairproxy.doctor.facts import Facts, Unknown

MOST_NAMED = 4  # models in one sentence


def are_the_same(facts: Facts) -> Iterator[Finding]:
    """One name, other content: requests are not shared."""
    if isinstance(facts.models, Unknown):
        return
    differing = [row for row in facts.models.models if any(cell.state == "different" for cell in row.cells)]
    if differing:
        yield Finding(
            "models-differ",
            "warning",
            f"{_named(differing)}: the same name means other content on another node, so requests are not "
            "shared between the two.",
            _fix(differing),
            differing[0].model,
        )


def have_one_window(facts: Facts) -> Iterator[Finding]:
    """The same model with windows of different sizes: long prompts fit one node and not the other."""
    if isinstance(facts.models, Unknown):
        return
    uneven = [row for row in facts.models.models if len(_windows(facts.models, row)) > 1]
    if uneven:
        sizes = " and ".join(f"{size:,}" for size in sorted(_windows(facts.models, uneven[0])))
        yield Finding(
            "windows-differ",
            "warning",
            f"{_named(uneven)}: its window is not the same on all nodes ({sizes} tokens), so long prompts "
            "cannot go to those with the smaller one.",
            _fix(uneven),
            uneven[0].model,
        )


def _windows(matrix: ModelMatrix, row: ModelRow) -> set[int]:
    return {
        cell.context_tokens for cell in row.cells if cell.state == "same" and cell.context_tokens is not None
    }


def _named(rows: Sequence[ModelRow]) -> str:
    names = [row.model for row in rows[:MOST_NAMED]]
    more = len(rows) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _fix(rows: Sequence[ModelRow]) -> str:
    fix = next((row.fix for row in rows if row.fix), "")
    return f"{fix} `pairproxy models` shows all of it.".strip()

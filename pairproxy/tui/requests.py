"""The requests that run and wait."""

from rich.text import Text

from pairproxy.api.schema import RunningStatus, Status
from pairproxy.tui.palette import BUSY, READING, WAITING, Palette
from pairproxy.tui.table import Column
from pairproxy.tui.words import SHORT, called, lasting, named

RUNNING = (
    Column("running", 8, is_rigid=True),
    Column("node", 10),
    Column("age", 6, is_right=True, is_rigid=True),
    Column("first byte", 10, rank=1, is_right=True, is_rigid=True),
    Column("tokens", 6, rank=2, is_right=True, is_rigid=True),
    Column("model", 9, rank=3),
    Column("", 7, rank=4),
)
WAITING_COLUMNS = (
    Column("waiting", 8, is_rigid=True),
    Column("age", 6, is_right=True, is_rigid=True),
    Column("model", 9, rank=1),
    Column("run", 6, rank=2),
)


def running_rows(status: Status, palette: Palette, most: int) -> list[list[Text]]:
    """The rows of RUNNING, those that run longest first, at most so many: what makes a run late is on top."""
    names = {node.node: node.name for node in status.nodes}
    oldest = sorted(status.running, key=lambda one: -one.age_s)[: max(most, 0)]
    return [_running_row(one, names, palette) for one in oldest]


def _running_row(one: RunningStatus, names: dict[str, str], palette: Palette) -> list[Text]:
    node = names.get(one.node or "", (one.node or "-")[:SHORT])
    if one.ttft_s is not None:
        first = Text(lasting(one.ttft_s))
    else:
        first = Text("-") if one.has_first_byte else Text("reading", READING)
    return [
        Text(named(one.request, is_ascii=True)[:SHORT], BUSY if one.has_first_byte else READING),
        Text(named(node, is_ascii=palette.is_ascii)),
        Text(lasting(one.age_s)),
        first,
        Text(str(one.output_tokens) if one.has_first_byte else "-"),
        Text(named(one.model, is_ascii=palette.is_ascii)),
        Text(_about(one, names, palette)),
    ]


def _about(one: RunningStatus, names: dict[str, str], palette: Palette) -> str:
    """What is special about it."""
    parts = []
    if one.origin is not None:
        parts.append(f"from {names.get(one.origin, one.origin[:SHORT])}")
    if one.attempt > 1:
        parts.append(f"attempt {one.attempt}")
    if one.run:
        parts.append(called(one.run))
    return named(", ".join(parts), is_ascii=palette.is_ascii)


def waiting_rows(status: Status, palette: Palette, most: int) -> list[list[Text]]:
    """The rows of WAITING_COLUMNS, the first to go first, at most so many."""
    return [
        [
            Text(named(one.request, is_ascii=True)[:SHORT], WAITING),
            Text(lasting(one.age_s)),
            Text(named(one.model, is_ascii=palette.is_ascii)),
            Text(named(called(one.run or ""), is_ascii=palette.is_ascii)),
        ]
        for one in status.waiting[: max(most, 0)]
    ]

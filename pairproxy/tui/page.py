"""The page: parts above and beside each other, each in as many lines as there is room for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from pairproxy.api.schema import Status
from pairproxy.tui.cells import waiting_cells
from pairproxy.tui.fitting import cut, padded, wrapped
from pairproxy.tui.nodes import MODELS, NODES, model_rows, node_rows, slots_of, totals
from pairproxy.tui.notes import notes
from pairproxy.tui.palette import BAD, HEAD, LIMIT, SOFT, Palette
from pairproxy.tui.requests import RUNNING, WAITING_COLUMNS, running_rows, waiting_rows
from pairproxy.tui.run import run_lines
from pairproxy.tui.table import Column, blocks, natural_width, table
from pairproxy.tui.words import counted, lasting, named

TWO_COLUMNS = 132  # characters from which the requests stand beside the nodes
BETWEEN = 3  # characters between the two
MOST_LISTED = 8  # requests on one page for paper: a screen has some 24 lines
LIMIT_LINES = 2  # of the sentence on what limits

Draw = Callable[[int], list[Text]]
"""Draws a part in at most so many lines, one or more."""


@dataclass(frozen=True, slots=True)
class Part:
    """``fair``: lines it gets before others get more than that; ``wants``: lines in which it fits.

    With fewer than three of these it is left out: a title and a count say nothing.
    """

    draw: Draw
    wants: int
    fair: int


def page(
    status: Status,
    limit: str,
    width: int,
    height: int,
    palette: Palette,
    *,
    banner: str = "",
    keys: str = "",
) -> list[Text]:
    """At most ``height`` lines of at most ``width`` columns.

    ``limit``: the sentence on what limits now. ``banner``: what must be seen first, "" for nothing.
    ``keys``: what the keyboard does.
    """
    if width < 1 or height < 1:
        return []
    top = _top(status, limit, width, palette, banner)
    foot = [_legend(status, width, palette, keys)]
    room = max(height - len(top) - len(foot), 0)
    if width >= TWO_COLUMNS:
        left_wide = (width - BETWEEN) // 2
        left = [*_cluster(status, left_wide, palette), _models(status, left_wide, palette)]
        right = _requests(status, width - left_wide - BETWEEN, palette)
        body = _beside(_stacked(left, room), _stacked(right, room), left_wide, palette)
    else:
        parts = [*_cluster(status, width, palette), *_requests(status, width, palette)]
        body = _stacked([*parts, _models(status, width, palette)], room)
    lines = [*top, *body, *[Text()] * (room - len(body)), *foot]
    return [cut(line, width, palette.ellipsis) for line in lines[:height]]


def one_page(status: Status, limit: str, width: int, palette: Palette) -> list[Text]:
    """The same for paper: in as many lines as it takes, only what runs and waits is cut off and counted.

    Nothing else is cut: a table that is wider than ``width`` becomes blocks, a sentence may be wider.
    """
    run = run_lines(status, width, palette)
    running = _on_paper(RUNNING, running_rows(status, palette, MOST_LISTED), width)
    waiting = _on_paper(WAITING_COLUMNS, waiting_rows(status, palette, MOST_LISTED), width)
    parts = [
        [*_on_paper(NODES, node_rows(status, width, palette), width), _legend(status, width, palette, "")],
        run,
        [*running, *_not_listed(len(status.running))],
        [*waiting, *_not_listed(len(status.waiting))],
        _on_paper(MODELS, model_rows(status, palette), width),
        [Text(named(note, is_ascii=palette.is_ascii)) for note in notes(status)],
    ]
    lines = _top(status, limit, width, palette, "")
    for part in parts:
        lines += [Text(), *part] if part else []
    return lines


def _on_paper(columns: Sequence[Column], rows: list[list[Text]], width: int) -> list[Text]:
    """A table if it fits, maybe without the columns that are pictures without a title; else blocks."""
    if not rows:
        return []
    if natural_width(columns, rows) > width:
        kept = [index for index, column in enumerate(columns) if column.title or not column.is_rigid]
        columns, rows = [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]
    return table(columns, rows, width, "") if natural_width(columns, rows) <= width else blocks(columns, rows)


def _not_listed(count: int) -> list[Text]:
    if count <= MOST_LISTED:
        return []
    return [Text(f"and {count - MOST_LISTED} more; `pairproxy status --json` has them all")]


def _top(status: Status, limit: str, width: int, palette: Palette, banner: str) -> list[Text]:
    """Who this is, what runs and waits, what limits."""
    head = Text().append("pairproxy ", HEAD).append(named(status.name, is_ascii=palette.is_ascii), HEAD)
    head.append(f"  {status.version}, up {lasting(status.uptime_s)}, {_policy(status)}", SOFT)
    lines = [head]
    if banner:
        lines.append(padded(Text(banner, "reverse bold"), width, palette.ellipsis))
    count = Text(counts(status))
    room = width - cell_len(count.plain) - 2
    if status.queue_length and room > 0:
        count.append("  ").append_text(waiting_cells(status.queue_length, room, palette))
    lines.append(count)
    sentence = named(limit, is_ascii=palette.is_ascii)
    return lines + [Text(line, LIMIT) for line in wrapped(sentence, width, LIMIT_LINES)]


def _policy(status: Status) -> str:
    """The policy, and whether the node drains."""
    return named(status.policy, is_ascii=True) + (", draining" if status.is_draining else "")


def counts(status: Status) -> str:
    """How many run, wait and have ended how."""
    ended = ", ".join(f"{count} {outcome}" for outcome, count in sorted(status.outcomes.items()))
    return (
        f"{len(status.running)} running, {status.queue_length} waiting, {sum(status.outcomes.values())} ended"
        + (f" ({ended})" if ended else "")
    )


def _legend(status: Status, width: int, palette: Palette, keys: str) -> Text:
    """What the cells mean, and the keys."""
    kinds = [(palette.writing, "writing"), (palette.reading, "reading"), (palette.free, "free")]
    slots = totals(status)
    if slots.others:
        kinds.append((palette.others, "for others"))
    if slots.withheld:
        kinds.append((palette.withheld, "withheld"))
    if status.queue_length:
        kinds.append((palette.waiting, "waiting"))
    text = Text().append("  ".join(f"{cell} {word}" for cell, word in kinds), SOFT)
    room = width - cell_len(text.plain) - cell_len(keys)
    if not keys:
        return text
    return text.append(" " * room).append(keys, HEAD) if room > 1 else Text(keys, HEAD)


def _cluster(status: Status, width: int, palette: Palette) -> list[Part]:
    rows = node_rows(status, width, palette)
    run = run_lines(status, width, palette)
    said = [
        Text(line)
        for note in notes(status)
        for line in wrapped(named(note, is_ascii=palette.is_ascii), width)
    ]
    return [
        _table(
            NODES,
            len(rows),
            lambda most: rows[:most],
            width,
            palette,
            10,
            lambda shown: _unseen(status, shown),
        ),
        Part(lambda most: run[:most], len(run), 3),
        Part(lambda most: _counted_out(said, most, " lines"), len(said), 3),
    ]


def _unseen(status: Status, shown: int) -> str:
    """The slots of the engines of the rows that are not shown."""
    places = [
        (node.node, engine.engine if engine else "")
        for node in status.nodes
        for engine in (node.engines or (None,))
    ]
    slots = slots_of(status)
    rest = [slots[place] for place in places[shown:] if place in slots]
    return f": {sum(one.busy for one in rest)} of {counted(sum(one.total for one in rest), 'slot')} in use"


def _requests(status: Status, width: int, palette: Palette) -> list[Part]:
    def running(most: int) -> list[list[Text]]:
        return running_rows(status, palette, most)

    def waiting(most: int) -> list[list[Text]]:
        return waiting_rows(status, palette, most)

    return [
        _table(RUNNING, len(status.running), running, width, palette, fair=6),
        _table(WAITING_COLUMNS, len(status.waiting), waiting, width, palette, fair=3),
    ]


def _models(status: Status, width: int, palette: Palette) -> Part:
    rows = model_rows(status, palette)
    return _table(MODELS, len(rows), lambda most: rows[:most], width, palette, fair=0)


def _table(
    columns: Sequence[Column],
    count: int,
    rows: Callable[[int], list[list[Text]]],
    width: int,
    palette: Palette,
    fair: int,
    unseen: Callable[[int], str] = lambda shown: "",
) -> Part:
    """A table of ``count`` rows, which ``rows`` makes as far as they fit; ``unseen`` tells of the rest."""

    def draw(most: int) -> list[Text]:
        shown = count if count < most else max(most - 2, 0)
        lines = table(columns, rows(shown), width, palette.ellipsis)[:most]
        if shown == count or most < 2:
            return lines
        return [*lines, Text(f"and {count - shown} more{unseen(shown)}", SOFT)]

    return Part(draw, count + 1 if count else 0, min(fair, count + 1))


def _counted_out(lines: Sequence[Text], most: int, what: str) -> list[Text]:
    """The first lines, and how many are not there."""
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], Text(f"and {len(lines) - most + 1} more{what}", BAD)]


def _stacked(parts: Sequence[Part], room: int) -> list[Text]:
    """The parts above each other, an empty line before each if there is room for all and their fair lines."""
    parts = [part for part in parts if part.wants]
    fair = [min(part.fair, part.wants) for part in parts]
    is_loose = sum(fair) + len(parts) <= room
    rows = room - len(parts) if is_loose else room
    heights = [0] * len(parts)
    for goal in (fair, [part.wants for part in parts]):
        for index, wanted in enumerate(goal):
            heights[index] += min(max(wanted - heights[index], 0), rows - sum(heights))
    lines: list[Text] = []
    for part, height in zip(parts, heights, strict=True):
        if height >= min(3, part.wants):
            lines += [*([Text()] if is_loose else ()), *part.draw(height)]
    return lines[:room]


def _beside(left: Sequence[Text], right: Sequence[Text], left_wide: int, palette: Palette) -> list[Text]:
    lines = []
    for index in range(max(len(left), len(right))):
        first = left[index] if index < len(left) else Text()
        line = padded(first, left_wide + BETWEEN, palette.ellipsis)
        lines.append(line.append_text(right[index]) if index < len(right) else line)
    return lines

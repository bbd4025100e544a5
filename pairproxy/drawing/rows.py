"""The rows of a picture: one for each slot that was used; where they are too many, one for several."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from pairproxy.api.schema import Report
from pairproxy.core.accounting.timeline import Bar, Timeline
from pairproxy.tui.words import counted, plain

SHORT_ID = 8  # characters of an id, where a node has no name


@dataclass(frozen=True, slots=True)
class Row:
    """Bars that are drawn in one line. ``label`` is for people, one line without control characters."""

    label: str
    bars: tuple[Bar, ...]
    slots: int = 1  # that share the row; 0: a node that served nothing
    nodes: int = 1  # the same

    @property
    def is_one_lane(self) -> bool:
        """Whether its bars stand behind each other; else it shows how many slots were busy."""
        return self.slots <= 1 and self.nodes == 1


def phases(bar: Bar) -> dict[str, tuple[float, float]]:
    """What a bar does, from when until when, by its name in the palette; what takes no time is left out."""
    if bar.end != "done":
        return {"failed": (bar.dispatched_s, bar.ended_s)}
    loaded_s = bar.dispatched_s + bar.load_s
    first_s = loaded_s if bar.first_byte_s is None else max(bar.first_byte_s, loaded_s)
    found = {
        "load": (bar.dispatched_s, loaded_s),
        "prefill": (loaded_s, first_s),
        "decode": (first_s, bar.ended_s),
    }
    return {phase: span for phase, span in found.items() if span[1] > span[0] or phase == "decode"}


def node_name(report: Report, node: str) -> str:
    """What a person calls a node."""
    return plain(report.names.get(node, "")) or plain(node)[:SHORT_ID]


def rows_of(report: Report, most: int | None = None) -> list[Row]:
    """This node's first, then by name; no more than ``most`` (at least one), if that is given.

    First the slots of a node come together, then several nodes; what stands for several says how many.
    """
    if report.timeline is None or report.run is None:
        return []
    lanes = _lanes(report, report.timeline)
    rows = [row for group in lanes for row in group]
    if most is None or len(rows) <= most:
        return rows
    nodes = [_together(group) for group in lanes]
    if len(nodes) <= most:
        return nodes
    size = ceil(len(nodes) / max(most, 1))
    return [_several(nodes[start : start + size]) for start in range(0, len(nodes), size)]


def _lanes(report: Report, timeline: Timeline) -> list[list[Row]]:
    """Of each node a row for each of its lanes; a node that served nothing has one, empty."""
    bars: defaultdict[int, list[Bar]] = defaultdict(list)
    for bar in timeline.bars:
        bars[bar.lane].append(bar)
    of_node: defaultdict[str, list[int]] = defaultdict(list)
    for number, lane in enumerate(timeline.lanes):
        of_node[lane.node].append(number)
    idle = [node for node in (report.run.per_node if report.run else ()) if node not in of_node]
    groups = []
    for node in sorted(
        [*of_node, *idle], key=lambda one: (one != report.node, _natural(node_name(report, one)), one)
    ):
        name, numbers = node_name(report, node), of_node.get(node, [])
        engines = {timeline.lanes[number].engine for number in numbers}
        group = []
        for number in numbers:
            lane = timeline.lanes[number]
            engine = f" {plain(lane.engine)}" if len(engines) > 1 else ""
            slot = f" {lane.slot}" if len(numbers) > len(engines) else ""
            group.append(Row(f"{name}{engine}{slot}", tuple(bars[number])))
        groups.append(group or [Row(name, (), slots=0)])
    return groups


def _natural(name: str) -> tuple[tuple[str, int], ...]:
    """A key by which box2 comes before box10."""
    return tuple((word, int(number or 0)) for word, number in re.findall(r"([^0-9]+|)([0-9]{0,15})", name))


def _together(group: Sequence[Row]) -> Row:
    """All slots of a node."""
    if len(group) == 1:
        return group[0]
    name = _shared_start([row.label for row in group])
    return Row(f"{name} x{len(group)}", _bars(group), len(group))


def _several(rows: Sequence[Row]) -> Row:
    """All slots of several nodes."""
    if len(rows) == 1:
        return rows[0]
    slots = sum(row.slots for row in rows)
    return Row(f"{counted(len(rows), 'node')}, {counted(slots, 'slot')}", _bars(rows), slots, len(rows))


def _bars(rows: Sequence[Row]) -> tuple[Bar, ...]:
    return tuple(sorted((bar for row in rows for bar in row.bars), key=lambda bar: bar.dispatched_s))


def _shared_start(labels: Sequence[str]) -> str:
    """The words that all of them begin with: the name of the node."""
    shared = []
    for words in zip(*(label.split(" ") for label in labels), strict=False):
        if len(set(words)) > 1:
            break
        shared.append(words[0])
    return " ".join(shared)

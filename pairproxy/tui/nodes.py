"""The nodes: their engines, slots as cells, tokens per second, models."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from pairproxy.api.schema import EngineStatus, NodeStatus, Status
from pairproxy.tui.cells import Slots, slot_cells, sparkline
from pairproxy.tui.palette import BAD, HEAD, SOFT, Palette
from pairproxy.tui.table import Column
from pairproxy.tui.words import counted, named

FOUND_BY = {  # NodeStatus.found_by in a person's words, short: a row has 80 characters
    "mdns": "via mDNS",
    "static": "via peers.static",
    "inbound": "via its own call",
    "remembered": "via last address",
    "pairing": "via pairing",
}
NODES = (
    Column("node", 8),
    Column("engine", 8, rank=4),
    Column("slots", 5, is_rigid=True),
    Column("in use", 6, is_right=True, is_rigid=True),
    Column("tok/s", 5, rank=1, is_right=True, is_rigid=True),
    Column("", 10, rank=2, is_rigid=True),
    Column("model", 9, rank=3),
    Column("", 12, rank=5),
)
MODELS = (
    Column("model", 9),
    Column("node", 6),
    Column("engine", 5, rank=2),
    Column("prefill tok/s", 13, is_right=True, is_rigid=True),
    Column("decode tok/s", 12, is_right=True, is_rigid=True),
    Column("", 10, rank=1),
)


@dataclass(frozen=True, slots=True)
class Room:
    """Columns for a row of cells and for a sparkline."""

    cells: int
    spark: int


def room_for(width: int) -> Room:
    """How much of a line of ``width`` columns cells and sparkline may take."""
    return Room(min(max(width // 5, 6), 40), min(max(width // 8, 10), 30))


def slots_of(status: Status) -> dict[tuple[str, str], Slots]:
    """The slots of each engine: (node, engine) -> what they do. Down engines and nodes have none."""
    writing = Counter((one.node, one.engine) for one in status.running if one.has_first_byte)
    reading = Counter((one.node, one.engine) for one in status.running if not one.has_first_byte)
    found = {}
    for node in status.nodes:
        for engine in node.engines:
            if node.is_up and engine.is_up:
                key = (node.node, engine.engine)
                is_offered = node.is_self or not node.withheld
                found[key] = _slots(engine, writing[key], reading[key], is_offered=is_offered)
    return found


def _slots(engine: EngineStatus, writing: int, reading: int, *, is_offered: bool) -> Slots:
    others = max(engine.in_flight - writing - reading, 0)
    free = max(engine.slots - writing - reading - others, 0)
    foreign = max(engine.foreign, 0)
    return Slots(writing, reading, others, free if is_offered else 0, foreign + (0 if is_offered else free))


def node_rows(status: Status, width: int, palette: Palette) -> list[list[Text]]:
    """The rows of NODES, one for an engine, or for a node without one."""
    room = room_for(width)
    slots = slots_of(status)
    most = max((max(node.recent_tokens_per_s, default=0.0) for node in status.nodes), default=0.0)
    rows = []
    for node in status.nodes:
        engines: Sequence[EngineStatus | None] = node.engines or (None,)
        for number, engine in enumerate(engines):
            row = _engine_cells(node, engine, slots, room, palette)
            rate, spark, state = Text(), Text(), Text()
            name = Text()
            if number == 0:
                name = Text(named(node.name, is_ascii=palette.is_ascii), HEAD)
                rate = Text(f"{node.tokens_per_s:.0f}") if node.is_up else Text("-", SOFT)
                spark = sparkline(node.recent_tokens_per_s, room.spark, most, palette)
                state = state_of(node)
            rows.append([name, *row[:3], rate, spark, row[3], state])
    return rows


def state_of(node: NodeStatus) -> Text:
    """How a node is there, in two words."""
    if node.is_self:
        return Text("this machine")
    if not node.is_up:
        return Text("down", BAD)
    if node.withheld and node.engines:
        return Text("withheld", SOFT)
    return Text(FOUND_BY.get(node.found_by or "", named(node.found_by or "", is_ascii=True)))


def _engine_cells(
    node: NodeStatus,
    engine: EngineStatus | None,
    slots: Mapping[tuple[str, str], Slots],
    room: Room,
    palette: Palette,
) -> tuple[Text, Text, Text, Text]:
    """Engine, cells, in use, model."""
    down = Text("down", BAD)
    if engine is None:
        return Text("-", SOFT), Text("no engine", SOFT) if node.is_up else down, Text("-", SOFT), Text()
    kind = Text(named(engine.kind, is_ascii=palette.is_ascii))
    models = [replica.model for replica in engine.replicas]
    model = Text(
        named(models[0], is_ascii=palette.is_ascii) if len(models) == 1 else counted(len(models), "model")
    )
    one = slots.get((node.node, engine.engine))
    if one is None:
        return kind, down, Text("-", SOFT), model
    return kind, slot_cells(one, room.cells, palette), Text(f"{one.busy}/{one.total}"), model


def totals(status: Status) -> Slots:
    """All slots of all nodes together."""
    found = list(slots_of(status).values())
    return Slots(
        sum(one.writing for one in found),
        sum(one.reading for one in found),
        sum(one.others for one in found),
        sum(one.free for one in found),
        sum(one.withheld for one in found),
    )


def model_rows(status: Status, palette: Palette) -> list[list[Text]]:
    """The rows of MODELS, one for a replica."""
    return [
        [
            Text(named(replica.model, is_ascii=palette.is_ascii)),
            Text(named(node.name, is_ascii=palette.is_ascii)),
            Text(named(engine.kind, is_ascii=palette.is_ascii)),
            Text(f"{replica.prefill_tokens_per_s:.0f}"),
            Text(f"{replica.decode_tokens_per_s:.0f}"),
            Text("loaded" if replica.is_loaded else "not loaded", "" if replica.is_loaded else SOFT),
        ]
        for node in status.nodes
        for engine in node.engines
        for replica in engine.replicas
    ]

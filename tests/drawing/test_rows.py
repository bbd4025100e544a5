from itertools import pairwise

from pairproxy.core.workload import SimNode
from pairproxy.drawing.rows import node_name, phases, rows_of
from tests.core.accounting.judged import RATES, nodes, piece
from tests.drawing.pictured import HOSTILE, many, pictured, with_hostile_names


def test_this_node_comes_first_then_the_others_by_their_names() -> None:
    """Numbers in names count as numbers, and a node that served nothing has an empty row."""
    report = pictured(nodes("abcd"), [piece() for _ in range(3)], a="zoo", b="box10", c="box2", d="box1")
    rows = rows_of(report)
    assert [row.label for row in rows] == ["zoo", "box1", "box2", "box10"]
    assert [row.slots for row in rows] == [1, 0, 1, 1]
    assert rows[1].bars == ()


def test_slots_of_a_node_are_numbered_where_there_are_several() -> None:
    """One row each; each bar stands in one of them."""
    report = pictured(nodes("ab", 2), [piece() for _ in range(8)])
    rows = rows_of(report)
    assert [row.label for row in rows] == ["a 1", "a 2", "b 1", "b 2"]
    assert sum(len(row.bars) for row in rows) == 8
    assert all(row.is_one_lane for row in rows)


def test_what_does_not_fit_comes_together_with_its_count() -> None:
    """First the slots of each node, then nodes; no bar and no slot gets lost, for any height."""
    report = many(400, 16, 4)
    for most in (1, 2, 3, 5, 15, 16, 17, 63, 64, 100):
        rows = rows_of(report, most)
        assert len(rows) <= most
        assert sum(len(row.bars) for row in rows) == 400
        assert sum(row.slots for row in rows) == 64
        assert sum(row.nodes for row in rows) == (16 if most < 64 else 64)
    assert rows_of(report, 16)[0].label.endswith(" x4")
    assert rows_of(report, 3)[0].label == "6 nodes, 24 slots"


def test_what_a_bar_does_adds_up_to_its_time() -> None:
    """Loading, reading, writing behind each other; what led to nothing is one piece."""
    cluster = [
        SimNode.of(name, 1, RATES, is_loaded=False, lost_at=9.0 if name == "b" else None) for name in "ab"
    ]
    rows = rows_of(pictured(cluster, [piece(200) for _ in range(6)]))
    seen = set()
    for bar in (bar for row in rows for bar in row.bars):
        spans = list(phases(bar).values())
        assert (spans[0][0], spans[-1][1]) == (bar.dispatched_s, bar.ended_s)
        assert all(before[1] == after[0] for before, after in pairwise(spans))
        seen |= set(phases(bar))
    assert seen == {"load", "prefill", "decode", "failed"}


def test_names_are_one_line_without_control_characters() -> None:
    """Whatever a machine calls itself; one without a name goes by its id."""
    report = with_hostile_names()
    for row in rows_of(report):
        assert row.label.isprintable()
        assert "\n" not in row.label
    assert node_name(report, "0123456789abcdef") == "01234567"
    assert HOSTILE not in {row.label for row in rows_of(report)}

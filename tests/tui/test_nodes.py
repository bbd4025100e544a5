import msgspec

from pairproxy.tui.nodes import MODELS, NODES, model_rows, node_rows, slots_of, totals
from pairproxy.tui.palette import ASCII
from tests.support.statuses import A, B, at_work, engine, node, replica, running, status


def rows(*args: object) -> list[list[str]]:
    """The cells of all rows as text."""
    return [[cell.plain for cell in row] for row in node_rows(*args)]  # type: ignore[arg-type]


def test_a_row_shows_slots_rate_and_model() -> None:
    """One for each engine; the rate is the node's; a node that is down says so instead of cells."""
    desk, spark, laptop = rows(at_work(), 80, ASCII)
    assert desk == ["desk", "ollama", "# =", "2/2", "118", "       _:#", "m:1b", "this machine"]
    assert spark[2:5] == ["# # o .", "3/4", "60"]
    assert laptop[2:5] == ["down", "-", "-"]
    assert laptop[-1] == "down"
    assert len(desk) == len(NODES)


def test_what_is_busy_beyond_our_own_requests_is_for_others() -> None:
    """A request that a peer's state does not count yet is counted here."""
    slots = slots_of(status(node(A, "desk", engine(4, 3)), running=(running(1),)))[A, "gpu"]
    assert (slots.writing, slots.reading, slots.others, slots.free) == (1, 0, 2, 1)
    slots = slots_of(status(node(A, "desk", engine(1, 0)), running=(running(1), running(2, writes=False))))[
        A, "gpu"
    ]
    assert (slots.writing, slots.reading, slots.others, slots.free) == (1, 1, 0, 0)


def test_slots_that_somebody_else_needs_are_shown_and_not_counted() -> None:
    """As cells of their own."""
    taken = msgspec.structs.replace(engine(2, 0), foreign=1)
    (row,) = rows(status(node(A, "desk", taken)), 80, ASCII)
    assert row[2:4] == [". . x", "0/2"]


def test_what_a_peer_withholds_is_not_free() -> None:
    """It is shown as withheld, and what runs there is counted; own slots stay free for own clients."""
    box = msgspec.structs.replace(node(B, "box", engine(3, 1)), withheld="owner")
    desk = msgspec.structs.replace(node(A, "desk", engine(1, 0)), withheld="owner")
    first, second = rows(status(desk, box), 80, ASCII)
    assert (first[2:4], first[-1]) == ([".", "0/1"], "this machine")
    assert (second[2:4], second[-1]) == (["o x x", "1/1"], "withheld")


def test_several_engines_and_none() -> None:
    """The name stands once; several models are counted."""
    found = status(node(A, "desk", engine(1, 0, models=("a", "b")), engine(1, 0, "two")), node(B, "box"))
    first, second, third = rows(found, 80, ASCII)
    assert (first[0], first[6], second[0], second[4], third[:3]) == (
        "desk",
        "2 models",
        "",
        "",
        ["box", "-", "no engine"],
    )


def test_all_slots_together() -> None:
    """Those of nodes that are down are not there."""
    assert (totals(at_work()).busy, totals(at_work()).total) == (5, 6)


def test_models_have_their_speeds() -> None:
    """A row for each replica, and what is not loaded says so."""
    cold = msgspec.structs.replace(
        engine(), replicas=(msgspec.structs.replace(replica("x"), is_loaded=False),)
    )
    (row,) = model_rows(status(node(A, "desk", cold)), ASCII)
    assert [cell.plain for cell in row] == ["x", "desk", "ollama", "2000", "60", "not loaded"]
    assert len(row) == len(MODELS)

import json

import msgspec

from pairproxy.api.models import ModelCell, ModelMatrix, ModelRow

MATRIX = ModelMatrix(
    node="A",
    nodes=("A", "B"),
    names={"A": "anna", "B": "ben"},
    models=(
        ModelRow(
            "m:1b",
            1,
            (
                ModelCell("A", "same", "ollama-1", "sha256:1", True, 4096, 2, 100.0, 10.0, "ollama", "Q4_0"),
                ModelCell("B", "missing"),
            ),
            costs="No balancing possible: every request for it runs on this machine.",
        ),
    ),
)


def test_it_comes_back_as_it_was() -> None:
    """What the daemon writes is what the command and the page read."""
    assert msgspec.json.decode(msgspec.json.encode(MATRIX), type=ModelMatrix) == MATRIX


def test_adding_is_free() -> None:
    """A newer daemon may tell more."""
    grown = json.loads(msgspec.json.encode(MATRIX))
    grown["new"] = grown["models"][0]["new"] = grown["models"][0]["cells"][0]["new"] = [1]
    assert msgspec.json.decode(json.dumps(grown), type=ModelMatrix) == MATRIX


def test_a_row_has_a_cell_for_each_node() -> None:
    """In their order, so that a table needs no look-up."""
    assert all(tuple(cell.node for cell in row.cells) == MATRIX.nodes for row in MATRIX.models)

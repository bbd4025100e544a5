import msgspec

from pairproxy.admin import matrix
from pairproxy.admin.holdings import Known
from pairproxy.admin.matrix import lay_out
from pairproxy.api.client import ANSWER_BYTES
from pairproxy.api.models import ModelMatrix
from pairproxy.core.models import ModelName, Replica
from tests.admin.test_differences import M, engine, node, q


def test_rows_are_models_and_columns_nodes_this_one_first() -> None:
    """By name; a cell for each node, in the order of the columns."""
    other = Replica(ModelName("a:1"), "sha256:9")
    found = lay_out(Known((node("zoe", engine("ollama", q())), node("ben", engine("ollama", q(), other)))))
    assert (found.node, found.nodes, found.away) == ("zoe", ("zoe", "ben"), ())
    assert [one.model for one in found.models] == ["a:1", M]
    assert [[cell.state for cell in one.cells] for one in found.models] == [
        ["missing", "same"],
        ["same", "same"],
    ]
    assert all([cell.node for cell in one.cells] == ["zoe", "ben"] for one in found.models)


def test_a_cell_tells_engine_speed_window_and_whether_it_is_loaded() -> None:
    """All that one wants to compare."""
    (row,) = lay_out(Known((node("anna", engine("ollama", q(), slots=4, loaded=False)),))).models
    (cell,) = row.cells
    assert (cell.engine, cell.kind, cell.slots, cell.is_loaded) == ("ollama-1", "ollama", 4, False)
    assert (cell.context_tokens, cell.prefill_tokens_per_s, cell.decode_tokens_per_s) == (8192, 1000.0, 50.0)


def test_this_node_s_content_is_what_the_others_are_held_against() -> None:
    """Also if most have another one: it is what a request that arrives here gets."""
    nodes = (
        node("anna", engine("ollama", q())),
        *(node(f"n{number}", engine("ollama", q("sha256:2"))) for number in range(3)),
    )
    (row,) = lay_out(Known(nodes)).models
    assert [cell.state for cell in row.cells] == ["same", "different", "different", "different"]
    assert row.replicas == 1


def test_without_one_here_the_content_on_most_slots_counts() -> None:
    """As the scheduler chooses (core.holders)."""
    nodes = (
        node("anna"),
        node("ben", engine("ollama", q("sha256:2"), slots=8)),
        node("carl", engine("ollama", q())),
    )
    (row,) = lay_out(Known(nodes)).models
    assert [cell.state for cell in row.cells] == ["missing", "same", "different"]


def test_the_best_engine_of_a_node_stands_for_it() -> None:
    """The same content before another one, loaded before cold, more slots before fewer."""
    two = node("ben", engine("lmstudio", q("sha256:2"), slots=9), engine("ollama", q(), loaded=False))
    (row,) = lay_out(Known((node("anna", engine("ollama", q())), two))).models
    assert (row.cells[1].state, row.cells[1].kind) == ("same", "ollama")
    three = node("ben", engine("embedded", q(), loaded=False, slots=9), engine("ollama", q()))
    (row,) = lay_out(Known((node("anna", engine("ollama", q())), three))).models
    assert row.cells[1].kind == "ollama"


def test_a_node_that_is_away_counts_for_nothing_but_is_remembered() -> None:
    """Its cell tells what it had; it is no replica."""
    (row,) = lay_out(
        Known((node("anna", engine("ollama", q())), node("ben", engine("ollama", q()), up=False)))
    ).models
    assert [cell.state for cell in row.cells] == ["same", "away"]
    assert (row.replicas, row.cells[1].identity, row.cells[1].is_loaded, row.cells[1].slots) == (
        1,
        "sha256:1",
        False,
        0,
    )


def test_a_replica_counts_where_a_request_may_go() -> None:
    """Not at a peer that takes no new work, and not at any if the model stays on this machine."""
    anna = node("anna", engine("ollama", q()))
    both = (anna, node("ben", engine("ollama", q())), node("carl", engine("ollama", q()), is_draining=True))
    assert lay_out(Known(both)).models[0].replicas == 2
    assert lay_out(Known(both, local_only=("qwen*",))).models[0].replicas == 1


def test_an_empty_cluster_has_no_rows() -> None:
    """Nothing is listed, nothing is said."""
    found = lay_out(Known((node("anna"),)))
    assert (found.models, found.nodes, found.left_out) == ((), ("anna",), 0)


def test_more_models_than_a_document_holds_are_counted() -> None:
    """Those of this node stay, then those that most nodes have."""
    mine = Replica(ModelName("mine:1"), "sha256:1")
    theirs = [Replica(ModelName(f"m{number}:1"), "sha256:1") for number in range(matrix.MOST_MODELS + 4)]
    nodes = (
        node("anna", engine("ollama", mine)),
        node("ben", engine("ollama", *theirs)),
        node("carl", engine("ollama", theirs[-1])),
    )
    found = lay_out(Known(nodes))
    names = {one.model for one in found.models}
    assert (len(found.models), found.left_out) == (matrix.MOST_MODELS, 5)
    assert {"mine:1", theirs[-1].model} <= names


def test_many_nodes_take_rows_from_it() -> None:
    """The document stays as large as commands take, however many nodes and models there are."""
    theirs = [Replica(ModelName(f"m{number}:1"), "sha256:1") for number in range(500)]
    found = lay_out(Known(tuple(node(f"n{number}", engine("ollama", *theirs)) for number in range(64))))
    assert sum(len(row.cells) for row in found.models) <= matrix.MOST_CELLS
    assert len(found.models) + found.left_out == 500
    assert len(msgspec.json.encode(found)) < ANSWER_BYTES / 2


def test_it_comes_back_as_it_was_written() -> None:
    """The document is what the command reads."""
    found = lay_out(Known((node("anna", engine("ollama", q())), node("ben"))))
    assert msgspec.json.decode(msgspec.json.encode(found), type=ModelMatrix) == found

"""The matrix of models over daemons before engines of different makers, as `pairproxy models` shows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.api.client import get_models
from pairproxy.api.models import ModelRow
from tests.e2e.test_mixed_engines import MODEL, before, ollama, vllm
from tests.support.command import here
from tests.support.daemons import Daemons, Node, until
from tests.support.engine_thread import in_thread


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


def row(node: Node, model: str = MODEL) -> ModelRow:
    """A model as this node tells of it."""
    return next(one for one in get_models(node.home).models if one.model == model)


def states(node: Node, model: str = MODEL) -> list[str]:
    """The cells of a model, this node's first."""
    return [cell.state for cell in row(node, model).cells]


@pytest.mark.slow
def test_what_differs_is_told_from_where_one_stands_and_what_left_is_remembered(daemons: Daemons) -> None:
    """Two Ollamas with one name for two contents, and a vLLM with a name of its own; then one goes away."""
    with (
        in_thread(ollama("a" * 64)) as first,
        in_thread(ollama("b" * 64)) as second,
        in_thread(vllm()) as third,
    ):
        daemons.home("A", before(first, "ollama"))
        daemons.home("B", before(second, "ollama"))
        daemons.home("C", before(third, "openai"))
        daemons.pair(*"ABC")
        a, b, c = daemons.start(*"ABC")
        daemons.until_connected()
        assert [states(a), states(b)] == [["same", "different", "missing"]] * 2
        assert states(c) == ["missing", "same", "different"] or states(c) == ["missing", "different", "same"]
        text = here("models", "--home", a.home, COLUMNS="200").stdout
        assert "B has other content under this name" in text
        assert "costs: No balancing possible: every request for it runs on this machine." in text
        assert f"On B: `ollama pull {MODEL}`" in text
        assert f'aliases = {{ "{MODEL}" = "its name there" }}' in text
        assert states(a, "org/small-8b:latest") == ["missing", "missing", "same"]
        daemons.nodes.remove(b)
        b.stop()
        until(lambda: states(a) == ["same", "away", "missing"], "A sees that B left")
        assert row(a).cells[1].identity == "sha256:" + "b" * 64
        assert "B (away)" in here("models", "--home", a.home, COLUMNS="200").stdout


@pytest.mark.slow
def test_who_has_the_same_is_balanced_and_who_may_not_use_it_is_named(daemons: Daemons) -> None:
    """Equal content is one replica; a right that somebody takes away is told, and the peer sees no model."""
    with in_thread(ollama("a" * 64)) as first, in_thread(ollama("a" * 64)) as second:
        daemons.home("A", before(first, "ollama"))
        daemons.home("B", before(second, "ollama"))
        daemons.pair("A", "B")
        a, b = daemons.start("A", "B")
        daemons.until_connected()
        until(lambda: row(a).replicas == 2, "both have the same")
        assert (row(a).differences, row(a).costs, row(a).fix) == ((), "", "")
        assert here("rights", "B", "--model", "other*", "--home", a.home).returncode == 0
        until(lambda: row(b).replicas == 1, "B sees that it may not use A's")
        assert row(a).replicas == 2
        assert row(a).differences == ("B may not use it on this machine (`pairproxy rights`).",)
        assert states(b) == ["same", "missing"]

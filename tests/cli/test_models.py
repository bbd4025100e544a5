import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from pairproxy.admin.holdings import Known
from pairproxy.admin.matrix import lay_out
from pairproxy.api.models import ModelCell, ModelMatrix
from pairproxy.cli import models
from pairproxy.core.models import ModelName, Replica
from tests.admin.test_differences import engine, node, q
from tests.support.command import here, sentence
from tests.support.daemons import Node


def shown(found: ModelMatrix, width: int) -> list[str]:
    """What a terminal of this width shows."""
    out = Console(file=StringIO(), width=width, color_system=None, highlight=False)
    models._show_matrix(out, found, found.models)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]


def crowd(count: int = 16) -> ModelMatrix:
    """Nodes with three models; the last one is away."""
    long = Replica(ModelName("deepseek-r1-distill:32b"), "sha256:9")
    nodes = [
        node(
            f"machine-{number:02}",
            engine("ollama", q("sha256:2" if number % 5 == 4 else "sha256:1"), loaded=number % 2 == 0),
            up=number < count - 1,
        )
        for number in range(count - 1)
    ]
    last = node(f"machine-{count - 1:02}", engine("ollama", q(), long), up=False)
    return lay_out(Known((*nodes, last)))


def test_without_a_daemon_it_says_so_and_exits_with_3(home: Path) -> None:
    """One sentence, nothing on standard output."""
    done = here("models", "--home", home)
    assert (done.returncode, sentence(done)) == (
        3,
        "No daemon is running here. Start one with `pairproxy up`.",
    )


def test_it_shows_a_column_for_each_node(live: list[Node]) -> None:
    """Both have the model: the same, with its speed."""
    done = here("models", "--home", live[0].home)
    assert (done.returncode, done.stderr) == (0, "")
    titles, row = done.stdout.splitlines()[:2]
    assert titles.split() == ["model", "A", "B"]
    assert row.split()[0] == "paced:1b"
    assert row.count("same") == 2
    assert "same: the same content" in done.stdout
    assert "fix:" not in done.stdout


def test_one_model_is_shown_node_by_node(live: list[Node]) -> None:
    """With engine, window, slots and speeds; --json holds the same and is narrowed too."""
    done = here("models", "--home", live[0].home, "--model", "paced*")
    assert "balanced among 2 nodes" in done.stdout
    assert "131,072" in done.stdout
    told = json.loads(here("models", "--home", live[0].home, "--model", "paced", "--json").stdout)
    assert told["models"] == []
    told = json.loads(here("models", "--home", live[0].home, "--model", "PACED:1b", "--json").stdout)
    assert [one["model"] for one in told["models"]] == ["paced:1b"]
    assert [cell["state"] for cell in told["models"][0]["cells"]] == ["same", "same"]


def test_a_pattern_that_fits_nothing_says_how_many_there_are(live: list[Node]) -> None:
    """It is no failure."""
    done = here("models", "--home", live[0].home, "--model", "nix*")
    assert (done.returncode, done.stdout.strip()) == (
        0,
        "No model is called nix*. `pairproxy models` lists 1 model.",
    )


@pytest.mark.parametrize("width", [30, 40, 80, 200])
def test_sixteen_nodes_fit_every_width_and_none_is_lost(width: int) -> None:
    """Words where they fit, letters at 80 columns, a block for each model below; every node is named."""
    found = crowd()
    lines = shown(found, width)
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    for name in found.names.values():
        assert name in " ".join(lines)
    assert any("qwen3:8b" in line for line in lines)
    assert any("deepseek-r1-distill:32b" in line for line in lines)


def test_letters_tell_all_that_a_person_asks_first() -> None:
    """Same, other content, missing, away; small where it is not loaded."""
    lines = shown(crowd(), 80)
    (row,) = [line for line in lines if line.strip().startswith("qwen3:8b ") and " S " in line]
    assert row.split()[1:] == ["S", "s", "S", "s", "D", "s", "S", "s", "S", "d", "S", "s", "S", "s", "D", "a"]
    assert any("D other content" in line for line in lines)
    assert any("3 slots of" in line for line in lines)


def test_what_is_said_of_many_models_is_said_once() -> None:
    """Twenty models that only this machine has are one sentence, with NAME in the command."""
    many = [Replica(ModelName(f"m{number}:1"), "sha256:1") for number in range(20)]
    found = lay_out(Known((node("anna", engine("ollama", q(), *many)), node("ben", engine("ollama", q())))))
    lines = shown(found, 80)
    assert sum("No balancing" in line for line in lines) == 1
    assert any("`ollama pull NAME`" in line for line in lines)
    assert any(line.startswith("m0:1, m10:1, ") for line in lines)


def test_a_machine_that_is_alone_is_told_so_once() -> None:
    """Not once for each model."""
    found = lay_out(Known((node("anna", engine("ollama", q(), Replica(ModelName("b:1"), "x"))),)))
    assert not [line for line in shown(found, 80) if "balancing" in line or "fix" in line]
    assert "pairproxy pair" in models.ALONE
    silent = lay_out(Known((node("anna", silent=(engine("ollama", q()),)),)))
    assert any("Start ollama-1 on this machine" in line for line in shown(silent, 80))


def test_a_hostile_name_does_nothing_to_the_terminal() -> None:
    """Neither a node's nor a model's, nor what stands in a sentence."""
    evil = Replica(ModelName("evil\x1b[2J[bold]:1"), "sha256:1")
    found = lay_out(Known((node("\x1b]0;x\x07anna [red]", engine("ollama", evil)), node("ben"))))
    for width in (40, 80, 200):
        text = "\n".join(shown(found, width))
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "[red]" in text


def test_a_command_in_a_fix_is_not_broken_apart() -> None:
    """It fits a line as soon as there is room for it."""
    found = lay_out(Known((node("anna", engine("ollama", q())), node("ben", engine("ollama")))))
    assert any("`ollama pull qwen3:8b`" in line for line in shown(found, 60))


def test_what_there_is_to_say_of_nothing() -> None:
    """No engine lists a model: the next step is named."""
    empty = ModelMatrix("A", ("A",), {"A": "anna"}, ())
    assert "ollama pull" in models._nothing(empty, [])


def test_a_cell_without_a_speed_shows_none() -> None:
    """What is away is not compared."""
    assert models._word(ModelCell("B", "away", "x")) == "away"
    assert models._speeds(ModelCell("B", "away", "x")) == "?"

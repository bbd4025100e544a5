from pathlib import Path

import msgspec
import pytest

from tests.support.command import here, sentence
from tests.support.daemons import Node


def test_a_recorded_run_is_replayed_from_the_daemon(live: list[Node]) -> None:
    """As recorded first, with what the simulation is off; then as it would have been."""
    done = here("whatif", "--home", live[0].home, "--run", "nightly", "--add", "box=4:20000:400")
    assert (done.returncode, done.stderr) == (0, "")
    first, second, third, shares, *_ = done.stdout.splitlines()
    assert first.startswith("4 requests took ")
    assert "(off by " in first
    assert second.startswith("changed, with fastest-finish: ")
    assert second.endswith(" against the run as it was")
    assert "against box alone" in third
    assert "box 4" in shares


def test_without_a_change_it_says_which_there_are(live: list[Node]) -> None:
    """Nobody takes the run as it was for an answer."""
    done = here("whatif", "--home", live[0].home, "--run", "nightly")
    assert "nothing was changed: see --add" in done.stdout.splitlines()[1]


def test_a_file_does_as_well_and_needs_no_daemon(live: list[Node], tmp_path: Path) -> None:
    """What `report --json` printed."""
    file = tmp_path / "run.json"
    file.write_text(here("report", "--home", live[0].home, "--run", "nightly", "--json").stdout)
    done = here(
        "whatif",
        "--from",
        file,
        "--home",
        tmp_path / "none",
        "--remove",
        "B",
        "--policy",
        "least-busy",
        "--json",
    )
    assert done.returncode == 0
    told = msgspec.json.decode(done.stdout)
    assert told["replayed"]["requests"] == 4
    assert told["replayed"]["policy"] == "least-busy"
    assert told["speedup"] < 0.7
    assert told["is_credible"] == (told["model_error"] <= 0.15)
    assert told["speedup_best"] == pytest.approx(
        told["replayed"]["best_alone_s"] / told["replayed"]["changed_s"]
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--add", "box"), "'box' does not say a node. Write NAME=slots:prefill:decode"),
        (("--add", "box=one:2:3"), "does not say a number"),
        (("--faster", "B=x"), "does not say a number"),
        (("--add", "box=1.5:2:3"), "does not say whole slots"),
        (("--add", "B=1:2000:50"), "There is a node 'B' already"),
        (("--faster", "B=-1"), "a number that no machine has"),
        (("--faster", "B=2", "--faster", "B=3"), "names 'B' twice"),
        (("--remove", "zoe"), "knows no node 'zoe'"),
        (("--policy", "best"), "There is no policy 'best'"),
    ],
)
def test_what_makes_no_sense_says_how_to_write_it(
    live: list[Node], arguments: tuple[str, ...], says: str
) -> None:
    """Exit status 1 and one sentence."""
    done = here("whatif", "--home", live[0].home, *arguments)
    assert done.returncode == 1
    assert says in sentence(done)


def test_what_is_no_report_is_said(home: Path, tmp_path: Path) -> None:
    """A file that is something else, or is not there."""
    other = tmp_path / "other.json"
    other.write_text("[]")
    for file, why in (
        (other, "holds no report"),
        (tmp_path / "missing.json", "cannot be read: No such file or directory"),
    ):
        done = here("whatif", "--from", file, "--home", home)
        assert done.returncode == 1
        assert sentence(done).endswith(f"{why}. Write one with `pairproxy report --json > FILE`.")
    assert here("whatif", "--home", home).returncode == 3

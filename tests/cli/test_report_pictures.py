import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest

from pairproxy.api.schema import Report
from pairproxy.cli.report_pictures import replacing
from pairproxy.core.errors import BadRequest
from tests.core.accounting.judged import nodes, piece
from tests.drawing.pictured import many, pictured, with_hostile_names
from tests.support.command import here, sentence
from tests.support.daemons import Node


@pytest.fixture
def run_json(tmp_path: Path) -> Path:
    """What `pairproxy report --json` printed of five requests on two nodes."""
    return written(tmp_path, pictured(nodes("ab"), [piece() for _ in range(5)], a="laptop"))


def written(directory: Path, report: Report) -> Path:
    """A report as a file."""
    file = directory / "run.json"
    file.write_bytes(msgspec.json.encode(report))
    return file


def test_a_live_run_has_its_timeline_and_both_sentences(live: list[Node]) -> None:
    """A row for each node with its wave, then what limited it and what would change it."""
    done = here("report", "--home", live[0].home, "--run", "nightly", LC_ALL="C.UTF-8")
    lines = done.stdout.splitlines()
    assert any(line.startswith("A ") and "1" in line for line in lines)
    assert any(line.startswith("What limited it: ") for line in lines)
    assert any(line.startswith("What would change it: ") for line in lines)


def test_the_json_has_the_same_two_sentences(live: list[Node]) -> None:
    """All faces read the verdict from there."""
    place = ("--home", live[0].home, "--run", "nightly")
    verdict = msgspec.json.decode(here("report", *place, "--json").stdout, type=Report).verdict
    assert verdict is not None
    shown = " ".join(here("report", *place, COLUMNS="500").stdout.split())
    assert " ".join(verdict.limited_by.split()) in shown
    assert " ".join(verdict.change.split()) in shown


def test_a_report_is_read_from_a_file(run_json: Path) -> None:
    """What somebody sent shows as it does where it was made; no daemon is asked."""
    done = here("report", "--from", run_json, LC_ALL="C.UTF-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert "laptop" in done.stdout
    assert "3 waves" in done.stdout


def test_pictures_are_written_and_told(run_json: Path, tmp_path: Path) -> None:
    """Both files at once, whole, and nothing else is left beside them."""
    folder = tmp_path / "out"
    folder.mkdir()
    svg, html = folder / "run.svg", folder / "run.html"
    done = here("report", "--from", run_json, "--svg", svg, "--html", html)
    assert done.returncode == 0
    assert done.stderr == f"{svg} is written.\n{html} is written.\n"
    ET.fromstring(svg.read_text(encoding="utf-8"))  # noqa: S314 - we wrote it
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(file.name for file in folder.iterdir()) == ["run.html", "run.svg"]


def test_with_json_standard_output_is_the_document_alone(run_json: Path, tmp_path: Path) -> None:
    """The pictures are written too."""
    done = here("report", "--from", run_json, "--json", "--svg", tmp_path / "run.svg")
    assert msgspec.json.decode(done.stdout, type=Report).verdict is not None
    assert (tmp_path / "run.svg").exists()


@pytest.mark.parametrize("option", ["--svg", "--html"])
def test_what_cannot_be_written_is_one_sentence(run_json: Path, tmp_path: Path, option: str) -> None:
    """A directory, a missing folder, a circle of links; each says what to do."""
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    for target, why in (
        (tmp_path, "is not a plain file"),
        (tmp_path / "no" / "x", "No such file"),
        (circle, ""),
    ):
        done = here("report", "--from", run_json, option, target)
        assert done.returncode == 1
        assert why in sentence(done)
        assert sentence(done).endswith("Name another file.") or sentence(done).endswith("Name another one.")


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_a_device_is_left_alone(run_json: Path) -> None:
    """It is not replaced by a file."""
    done = here("report", "--from", run_json, "--svg", "/dev/full")
    assert done.returncode == 1
    assert "is not a plain file" in sentence(done)
    assert not Path("/dev/full").is_file()


def test_a_full_disk_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    """What was there stays until all of the new one is written."""
    file = tmp_path / "run.svg"
    file.write_text("old", encoding="utf-8")

    def write() -> None:
        with replacing(file) as out:
            out.write("new")
            raise OSError(28, "No space left on device")

    with pytest.raises(BadRequest, match="No space left on device"):
        write()
    assert file.read_text(encoding="utf-8") == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["run.svg"]


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    """As other tools do."""
    real, link = tmp_path / "real.svg", tmp_path / "link.svg"
    link.symlink_to(real)
    with replacing(link) as out:
        out.write("new")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "new"


def test_files_that_hold_no_report_are_refused(tmp_path: Path) -> None:
    """Missing, a directory, no JSON, other JSON, bytes, brackets without end: a sentence how to write one."""
    other, binary, deep = tmp_path / "other.json", tmp_path / "x.bin", tmp_path / "deep.json"
    deep.write_text('{"run":null,"records":[],"names":{},"x":' + "[" * 200_000 + "]" * 200_000 + "}")
    other.write_text('{"a": 1}', encoding="utf-8")
    binary.write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path / "missing", tmp_path, other, binary, deep):
        done = here("report", "--from", file)
        assert done.returncode == 1
        assert sentence(done).endswith("Write one with `pairproxy report --json > FILE`.")


def test_options_that_do_not_go_together_are_wrong_usage(run_json: Path) -> None:
    """Each says which, and nothing is written."""
    for wrong in (
        ("--from", run_json, "--run", "x"),
        ("--since", "1d", "--svg", "x.svg"),
        ("--all", "--html", "x.html"),
        ("--from", run_json, "--svg", "same", "--html", "same"),
    ):
        done = here("report", *wrong)
        assert done.returncode == 2, done.stderr
        assert not Path("same").exists()


def test_there_is_nothing_to_draw_before_the_first_run(tmp_path: Path) -> None:
    """One sentence, and no file."""
    empty = written(tmp_path, Report(None, (), {}))
    done = here("report", "--from", empty, "--svg", tmp_path / "x.svg")
    assert done.returncode == 1
    assert "There is no run to draw." in sentence(done)
    assert not (tmp_path / "x.svg").exists()


def test_names_from_a_file_cannot_command_the_terminal(tmp_path: Path) -> None:
    """Nothing of a hostile report reaches it but text."""
    done = here("report", "--from", written(tmp_path, with_hostile_names()), COLUMNS="300")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert all(line.isprintable() for line in done.stdout.splitlines())


def test_many_requests_are_shown_on_one_screen(tmp_path: Path) -> None:
    """Sixteen nodes of four slots are sixteen rows, and nothing is cut silently."""
    done = here("report", "--from", written(tmp_path, many(700, 16, 4)), COLUMNS="80", LC_ALL="C.UTF-8")
    assert done.returncode == 0
    assert sum(" x4 " in line for line in done.stdout.splitlines()) == 16
    assert max(map(len, done.stdout.splitlines())) <= 80

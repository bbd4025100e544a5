import csv
import json
import os
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import typer

from pairproxy.api.runs import Exported, Runs, RunSummary
from pairproxy.cli import report_history
from pairproxy.cli.report_history import TITLES, row, since, summary
from pairproxy.core.models import NodeId
from pairproxy.history.store import FILE, Store
from tests.core.accounting.conversation import A, B, served
from tests.history.kept import EPOCH, grouped
from tests.support.command import here, sentence

RUN = RunSummary("job", "job", EPOCH, 2.5, 5, {"done": 5}, 2, 3, 2.5, 1.9, 1.7, 0.9, 500)


@pytest.fixture
def past(tmp_path: Path) -> Path:
    """A home whose daemon does not run; two runs are kept."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    records = [served(f"r{one}", one, one, one + 1.0, (A, B)[one % 2], run="nightly") for one in range(4)]
    store = Store(home / FILE, NodeId("a"), EPOCH)
    store.write(grouped([*records, served("bad\x1b[31m", 9000.0, 9000.0, 9001.0, run="red\x1b[31m")]))
    store.close()
    return home


def test_all_runs_are_a_table(past: Path) -> None:
    """The latest last, next to the prompt; it says that no daemon told it."""
    done = here("report", "--all", "--home", past)
    assert (done.returncode, done.stderr) == (0, f"{report_history.FROM_FILE}\n")
    head, first, second, total = done.stdout.splitlines()
    assert head.split() == list(TITLES)
    assert "nightly" in first
    assert "red[31m" in second
    assert "\x1b" not in done.stdout
    assert total == "2 runs, 5 requests (5 done), 500 tokens out"


def test_since_when_and_of_which_run_can_be_said(past: Path) -> None:
    """Together, too; nothing found is no error."""
    from_then = datetime.fromtimestamp(EPOCH + 60.0, UTC).isoformat()
    assert "nightly" not in here("report", "--since", from_then, "--home", past).stdout
    done = here("report", "--all", "--run", "nightly", "--home", past, "--json")
    assert [one.name for one in msgspec.json.decode(done.stdout, type=Runs).runs] == ["nightly"]
    done = here("report", "--since", "2100-01-01", "--home", past)
    assert (done.returncode, "No run was kept in that time" in done.stdout) == (0, True)


def test_one_run_is_reported_from_disk(past: Path) -> None:
    """As the daemon would, without a speedup; one that is not kept is an error."""
    done = here("report", "--run", "nightly", "--home", past)
    assert done.returncode == 0
    assert "4 requests (4 done)" in done.stdout
    done = here("report", "--run", "never", "--home", past)
    assert done.returncode == 1
    assert "report --all" in done.stderr


def test_requests_are_exported_to_a_file(past: Path, tmp_path: Path) -> None:
    """By the ending of its name; only its owner may read it; --json tells what was written."""
    table, everything = tmp_path / "runs.csv", tmp_path / "runs.jsonl"
    done = here("report", "--export", table, "--home", past)
    assert (done.returncode, done.stdout) == (0, f"{table}: 5 requests of 2 runs\n")
    assert stat.S_IMODE(table.stat().st_mode) == 0o600
    with table.open(newline="") as lines:
        assert [one["request"] for one in csv.DictReader(lines)][:2] == ["r0", "r1"]
    done = here("report", "--export", everything, "--run", "nightly", "--home", past, "--json")
    assert msgspec.json.decode(done.stdout, type=Exported) == Exported(str(everything), "jsonl", 1, 4)
    kinds = [json.loads(line)["kind"] for line in everything.read_text().splitlines()]
    assert kinds == ["run", *["request"] * 4]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["home", "runs.csv", "runs.jsonl"]


def test_requests_are_printed(past: Path) -> None:
    """For a pipe: nothing but the document."""
    done = here("report", "--format", "csv", "--home", past)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 6


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_an_export_replaces_neither_a_device_nor_a_pipe_nor_a_link(past: Path, tmp_path: Path) -> None:
    """As root, /dev/null would be a file from then on; what a link leads to is written, as with pictures."""
    pipe, real, link = tmp_path / "pipe.csv", tmp_path / "real.csv", tmp_path / "link.csv"
    os.mkfifo(pipe)
    link.symlink_to(real)
    for place in (pipe, Path("/dev/full"), Path("/dev/null")):
        done = here("report", "--format", "csv", "--export", place, "--home", past)
        assert done.returncode == 1
        assert "is not a plain file" in done.stderr
        assert not place.is_file()
    assert here("report", "--export", link, "--home", past).returncode == 0
    assert link.is_symlink()
    assert real.read_text().startswith("run,")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["home", "link.csv", "pipe.csv", "real.csv"]


WRONG = {
    ("--export", "runs.txt"): (2, "ends in .jsonl or .csv"),
    ("--export", "runs.csv", "--format", "xlsx"): (2, "jsonl or csv"),
    ("--since", "yesterday"): (2, "--since takes 30m"),
    ("--since", "-3d"): (2, "--since takes 30m"),
    ("--since", "2026-13-45"): (2, "--since takes 30m"),
    ("--export", "/nowhere/at/all.csv"): (1, "cannot be written"),
    ("--export", "/", "--format", "csv"): (1, "is not a plain file"),
}


@pytest.mark.parametrize(("options", "told"), WRONG.items(), ids=[" ".join(one) for one in WRONG])
def test_what_is_wrong_is_said(options: tuple[str, ...], told: tuple[int, str], past: Path) -> None:
    """Wrong usage is 2; what cannot be done is 1."""
    done = here("report", *options, "--home", past)
    assert done.returncode == told[0]
    assert told[1] in " ".join(done.stderr.replace("│", " ").split())


def test_no_history_is_said(tmp_path: Path) -> None:
    """A table of nothing would look like a machine that did nothing; a plain report wants a daemon."""
    done = here("report", "--all", "--home", tmp_path)
    assert (done.returncode, "There is no history in" in sentence(done)) == (1, True)
    assert here("report", "--run", "x", "--home", tmp_path).returncode == 3


def test_times_are_read_as_people_write_them() -> None:
    """So long ago, or a date of this machine's zone."""
    assert since("30m", 10_000.0) == 8200.0
    assert since(" 1.5 H ", 10_000.0) == 4600.0
    assert since("2w", 10_000.0) == 0.0
    assert since("2026-11-01", 0.0) == datetime(2026, 11, 1).astimezone().timestamp()
    assert (
        since("2026-11-01T12:00+00:00", 0.0) == datetime.fromisoformat("2026-11-01T12:00+00:00").timestamp()
    )
    with pytest.raises(typer.BadParameter):
        since("9999999999999999d", 0.0)


def test_a_row_fits_and_says_what_is_not_known() -> None:
    """Eighty columns hold it; a run of which not all was done says how many were."""
    odd = msgspec.structs.replace(
        RUN,
        name="a name that is much too long",
        outcomes={"done": 3, "failed": 2},
        speedup=None,
        efficiency=None,
    )
    cells = row(odd)
    assert cells[1:] == ("a name that i...", "3/5", "2.50 s", "-", "1.90", "-")
    assert row(msgspec.structs.replace(RUN, name=None, run="0123456789"))[1] == "01234567"


def test_the_sum_says_what_must_be_said() -> None:
    """More runs than are shown, and why nothing is written."""
    lines = summary(Runs("N", (RUN, RUN), True, "The disk is full."))
    assert lines[0] == "2 runs, 10 requests (10 done), 1000 tokens out"
    assert "speedup 1.70 in the median of 2 runs" in lines[1]
    assert "There are more" in lines[2]
    assert lines[3] == "The disk is full."
    assert summary(Runs("N", (RUN,), False)) == ["1 run, 5 requests (5 done), 500 tokens out"]


def test_the_median_of_two_speedups_stands_between_them() -> None:
    """It was the larger one."""
    runs = tuple(msgspec.structs.replace(RUN, speedup=speedup) for speedup in (3.0, 1.0))
    assert "speedup 2.00 in the median of 2 runs" in summary(Runs("N", runs))[1]


def test_where_nothing_is_found_it_does_not_send_in_a_circle() -> None:
    """Only who asked for a time or a name is told of --all."""
    assert "pairproxy report --all" in summary(Runs("N", ()))[0]
    assert "--all" not in summary(Runs("N", ()), is_all=True)[0]

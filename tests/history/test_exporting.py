import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pairproxy.history.changes import NodeChange
from pairproxy.history.exporting import COLUMNS, FORMULA, Wanted, Written, export
from pairproxy.history.reading import Past
from pairproxy.history.store import FILE, Store
from tests.core.accounting.conversation import A, B, dispatch, served
from tests.history.kept import EPOCH, grouped


@pytest.fixture
def past(tmp_path: Path) -> Past:
    """Two runs, a guest's request, and a node that came."""
    first = served("first", 0.0, 1.0, 3.0, run="job")
    first = replace(first, attempts=(replace(first.attempts[0], decision=dispatch("first", A).decision),))
    records = [
        first,
        served("second", 0.5, 1.0, 4.0, B, run="job"),
        served("guest", 2.0, 2.0, 5.0, origin=B),
        served("evil", 100.0, 100.0, 101.0, run='=HYPERLINK("x")', chain="@sum"),
    ]
    batch = grouped(records)
    store = Store(tmp_path / FILE, A, EPOCH)
    store.write(replace(batch, changes=[NodeChange(EPOCH, B, "up"), NodeChange(EPOCH + 99.0, B, "down")]))
    store.close()
    return Past(store.path)


def exported(past: Past, kind: str, wanted: Wanted | None = None) -> str:
    """What is written."""
    out = io.StringIO(newline="")
    export(past, wanted or Wanted(), kind, out)
    return out.getvalue()


def lines(past: Past, wanted: Wanted | None = None) -> list[dict[str, Any]]:
    """The same, as JSON lines."""
    return [json.loads(line) for line in exported(past, "jsonl", wanted).splitlines()]


def test_json_lines_hold_all_of_it(past: Past) -> None:
    """Runs, requests with their attempts and candidates, what became of nodes."""
    told = lines(past)
    assert [one["kind"] for one in told] == ["run", "run", *["request"] * 4, "change", "change"]
    assert [one["run"] for one in told[:2]] == ["job", '=HYPERLINK("x")']
    first = told[2]
    assert (first["request"], first["run"], first["run_name"], first["node"]) == ("first", "job", "job", A)
    assert (first["arrived_unix"], first["queue_s"], first["latency_s"]) == (EPOCH, 1.0, 3.0)
    (attempt,) = first["tries"]
    assert (attempt["dispatched_s"], attempt["first_byte_s"], attempt["ended_s"]) == (1.0, 1.5, 3.0)
    assert [one["node"] for one in attempt["candidates"]] == ["other", A]
    assert (told[4]["request"], told[4]["run"], told[4]["origin"]) == ("guest", "", B)
    assert [one["what"] for one in told[6:]] == ["new", "down"]


def test_no_name_ends_a_line_or_commands_a_terminal(tmp_path: Path) -> None:
    """Python and others end a line at more than a line feed; a terminal may take U+009B for an escape."""
    names = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x9b31mh\u202ei\x7fj", "\x1b]0;x\x07"
    store = Store(tmp_path / FILE, A, EPOCH)
    records = [served(f"r{at}", 0.0, 1.0, 3.0, run=name, chain=name) for at, name in enumerate(names)]
    changes = [NodeChange(EPOCH, B, "up", names[0])]
    store.write(replace(grouped(records), names={A: names[0]}, changes=changes))
    store.close()
    text = exported(Past(store.path), "jsonl")
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    assert len(text.splitlines()) == text.count("\n") == 5
    assert json.loads(text.splitlines()[0])["name"] == names[0]


def test_csv_is_a_table_of_the_requests(past: Past) -> None:
    """One line each, times in UTC, nothing where nothing is known."""
    rows = list(csv.DictReader(io.StringIO(exported(past, "csv"))))
    assert [row["request"] for row in rows] == ["first", "second", "guest", "evil"]
    assert set(rows[0]) == set(COLUMNS)
    assert datetime.fromisoformat(rows[0]["arrived"]) == datetime.fromtimestamp(EPOCH, UTC)
    assert (rows[0]["node_name"], rows[1]["node_name"]) == ("anna", "ben")
    assert (rows[0]["cached_tokens"], rows[0]["output_tokens"], rows[0]["is_streaming"]) == (
        "",
        "100",
        "true",
    )


def test_no_cell_is_a_formula(past: Past) -> None:
    """A client names runs as it likes, and a spreadsheet runs what begins so."""
    rows = list(csv.reader(io.StringIO(exported(past, "csv"))))
    cells = [cell for row in rows for cell in row]
    assert not [cell for cell in cells if cell.startswith(FORMULA)]
    assert '\'=HYPERLINK("x")' in cells
    assert "'@sum" in cells


def test_a_run_or_a_time_can_be_asked_for(past: Past) -> None:
    """With --since a run counts by its start, and its requests come with it or not at all."""
    assert [one["request"] for one in lines(past, Wanted(run="job")) if one["kind"] == "request"] == [
        "first",
        "second",
    ]
    assert {one["kind"] for one in lines(past, Wanted(run="job"))} == {"run", "request"}
    since = lines(past, Wanted(EPOCH + 0.1))
    assert [one["kind"] for one in since] == ["run", "request", "request", "change"]
    assert [one["request"] for one in since[1:3]] == ["guest", "evil"]
    assert lines(past, Wanted(EPOCH + 50.0, "job")) == []
    assert exported(past, "csv", Wanted(run="never")).count("\n") == 1


def test_it_tells_how_far_it_is(tmp_path: Path) -> None:
    """Of each 500 requests."""
    store = Store(tmp_path / FILE, A, EPOCH)
    store.write(grouped([served(f"r{one}", one, one, one + 1.0) for one in range(1001)]))
    heard: list[int] = []
    written = export(
        Past(store.path), Wanted(), "csv", io.StringIO(), lambda told: heard.append(told.requests)
    )
    assert heard == [500, 1000]
    assert (written.runs, written.requests) == (1, 1001)
    assert isinstance(written, Written)

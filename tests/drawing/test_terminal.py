from dataclasses import replace

import msgspec
import pytest
from rich.cells import cell_len

from pairproxy.api.schema import Report
from pairproxy.core.accounting.runs import Run
from pairproxy.core.models import Outcome
from pairproxy.core.workload import SimNode
from pairproxy.drawing.terminal import ASCII, BLOCKS, timeline_text
from tests.core.accounting.conversation import A, served
from tests.core.accounting.judged import RATES, nodes, piece
from tests.drawing.pictured import many, pictured, told, with_hostile_names


def drawn(report: Report, columns: int = 80, rows: int = 20, *, is_ascii: bool = False) -> list[str]:
    """The lines without their colours."""
    return [line.plain for line in timeline_text(report, columns, rows, is_ascii=is_ascii)]


def five_on_two() -> Report:
    """Three waves on two nodes."""
    return pictured(nodes("ab"), [piece() for _ in range(5)], a="laptop")


def test_each_slot_is_a_row_with_its_waves_and_phases() -> None:
    """A digit begins each bar, reading comes before writing, and the second node is free at the end."""
    first, second = drawn(five_on_two())[:2]
    assert first.startswith("laptop ")
    for wave in "123":
        assert f"{wave}{BLOCKS.prefill}" in first
    assert "3" not in second
    assert second.rstrip(f"{BLOCKS.bound}").endswith("  ")
    assert first.index(BLOCKS.prefill) < first.index(BLOCKS.decode)


def test_the_bound_is_one_line_through_all_rows() -> None:
    """In the same column of each row, and its seconds in the legend."""
    report = pictured(nodes("abc"), [*(piece() for _ in range(9)), piece(300)])
    lines = drawn(report)[:4]
    columns = {line.index(BLOCKS.bound) for line in lines}
    assert len(columns) == 1
    assert report.run is not None
    assert report.run.lower_bound_s is not None
    at = (columns.pop() - len("waiting  ")) / (80 - len("waiting  ") - 1) * report.run.makespan_s
    assert at == pytest.approx(report.run.lower_bound_s, abs=report.run.makespan_s / 60)
    assert any(f"no schedule ends before {report.run.lower_bound_s:.1f} s" in line for line in drawn(report))


def test_bars_stand_where_they_were() -> None:
    """The second half of the run is drawn in the second half of the row."""
    record = served("r", 0.0, 0.0, 20.0)
    late = served("s", 10.0, 10.0, 20.0, A)
    report = told(Run("j", None, (record, late)), [record, late], {A: 2}, {A: "x"})
    second = drawn(report)[1]
    cells = second[len("waiting  ") :]
    assert cells[:34].strip() == ""
    assert cells[36:].count(BLOCKS.decode) > 30


def test_a_wait_on_a_free_slot_a_cold_load_and_a_failure_are_told_apart() -> None:
    """Each has its own character, and the legend names those that are in the picture and no others."""
    cold = [SimNode.of(name, 1, RATES, is_loaded=name == "a") for name in "ab"]
    text = "\n".join(drawn(pictured(cold, [piece() for _ in range(4)])))
    assert BLOCKS.load in text
    assert "the model is loaded" in text
    assert "led to nothing" not in text
    lost = [SimNode.of(name, 1, RATES, lost_at=4.0 if name == "b" else None) for name in "ab"]
    text = "\n".join(drawn(pictured(lost, [piece(200) for _ in range(4)])))
    assert BLOCKS.failed * 3 in text
    assert "led to nothing" in text
    waited = served("r", 0.0, 5.0, 10.0)
    text = "\n".join(drawn(told(Run("j", None, (waited,)), [waited], {A: 1}, {A: "x"})))
    assert BLOCKS.waiting * 10 in text
    assert "waits" in text


def test_a_column_of_several_bars_shows_what_took_most_of_it() -> None:
    """Of bars shorter than a column each reads for a twentieth of its time: none looks like reading."""
    records = [
        replace(one, attempts=(replace(one.attempts[0], first_byte_at=0.97 * at + 0.05),))
        for at in range(150)
        for one in (served(f"r{at}", 0.0, 0.97 * at, 0.97 * (at + 1)),)
    ]
    row = drawn(told(Run("j", None, tuple(records)), records, {A: 1}, {A: "x"}))[0]
    cells = row[len("waiting  ") :].strip()
    assert len(cells) > 60
    assert set(cells) <= {BLOCKS.decode, BLOCKS.begins, BLOCKS.bound}


def test_who_found_no_place_is_in_the_picture() -> None:
    """A row of its own, and among those that waited."""
    refused = replace(served("r", 0.0, 0.0, 4.0), attempts=(), outcome=Outcome.REFUSED)
    good = served("u", 0.0, 0.0, 8.0)
    lines = drawn(told(Run("j", None, (good, refused)), [good, refused], {A: 1}, {A: "x"}))
    assert any(line.startswith("no place ") and BLOCKS.failed in line for line in lines)
    assert any("waiting up to 1 request" in line for line in lines)


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("rows", [1, 3, 16, 70])
@pytest.mark.parametrize("is_ascii", [False, True])
def test_every_line_fits_the_terminal(columns: int, rows: int, is_ascii: bool) -> None:
    """Also with many nodes, names that are too long, and in any height."""
    report = many(300, 16, 4)
    report = msgspec.structs.replace(
        report, names={node: f"機械 {name} " * 5 for node, name in report.names.items()}
    )
    lines = timeline_text(report, columns, rows, is_ascii=is_ascii)
    assert max(line.cell_len for line in lines) <= max(columns, 40)
    assert sum(line.plain[0] != " " for line in lines) >= min(rows, 16)


def test_without_utf8_every_character_is_ascii() -> None:
    """Names too, and everything is still told apart."""
    report = msgspec.structs.replace(five_on_two(), names={"a": "Schreibtisch ß 機械", "b": "b"})
    text = "\n".join(drawn(report, is_ascii=True))
    assert text.isascii()
    assert all(character in text for character in (ASCII.prefill, ASCII.decode, ASCII.bound))
    signs = {ASCII.waiting, ASCII.load, ASCII.prefill, ASCII.decode, ASCII.failed, ASCII.bound, ASCII.begins}
    assert len(signs) == 7


def test_the_whole_of_a_row_of_slots_is_their_sum() -> None:
    """A node of four slots that are always busy is full in every column but at its end."""
    row = drawn(many(800, 16, 4), rows=16)[0]
    cells = row.split("x4", 1)[1].strip()
    assert set(cells[: len(cells) // 2]) <= {BLOCKS.levels[-1], BLOCKS.bound}
    assert cells[: len(cells) // 2].count(BLOCKS.levels[-1]) > 20


def test_names_cannot_command_a_terminal() -> None:
    """No control character of a name is left."""
    for line in timeline_text(with_hostile_names(), 100, 20):
        assert line.plain.isprintable()
        assert cell_len(line.plain) == line.cell_len


def test_a_report_without_a_timeline_has_no_picture() -> None:
    """Neither an empty one nor one of an earlier version, nor one that took no time."""
    assert timeline_text(Report(None, (), {}), 80, 20) == []
    assert timeline_text(msgspec.structs.replace(five_on_two(), timeline=None), 80, 20) == []
    at_once = served("r", 0.0, 0.0, 0.0)
    assert timeline_text(told(Run("j", None, (at_once,)), [at_once], {A: 1}, {}), 80, 20) == []

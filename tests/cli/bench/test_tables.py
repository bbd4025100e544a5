import json

import pytest

from pairproxy.cli.bench.tables import Row, model_notes, print_table, scale_note, to_json, told

ROWS = (
    Row("a burst", 1.25, "<=", 1.3, "x", modelled=1.5),
    Row("many", 3.0, ">=", 3.5, note="one node was lost"),
    Row("for comparison", 528.4, unit="min"),
)


@pytest.mark.parametrize(
    ("sense", "value", "is_met"),
    [
        ("<=", 1.0, True),
        ("<=", 1.1, False),
        (">=", 1.0, True),
        (">=", 0.9, False),
        ("<", 1.0, False),
        ("", 9.0, None),
    ],
)
def test_a_target_is_met_on_its_side(sense: str, value: float, is_met: bool | None) -> None:
    """At most, at least, below; without a target there is no verdict."""
    row = Row("x", value, sense, 1.0)  # type: ignore[arg-type]
    assert row.is_met is is_met
    assert row.verdict == {True: "met", False: "MISSED", None: ""}[is_met]


def test_figures_are_written_as_people_write_them() -> None:
    """Minutes as a clock, parts as percents, nothing as nothing."""
    assert [told(528.4, "min"), told(59.6, "min"), told(0.045, "%"), told(1.5, "x"), told(None, "s")] == [
        "8:48", "1:00", "4.5%", "1.50 x", "",
    ]  # fmt: skip


def test_people_see_what_was_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row per figure with its verdict; notes below."""
    monkeypatch.setenv("COLUMNS", "80")
    print_table("Title", ROWS, ["a note"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Title"
    assert lines[2].split() == ["a", "burst", "<=", "1.30", "x", "1.25", "x", "1.50", "x", "met"]
    assert lines[3].split()[-1] == "MISSED"
    assert lines[-2:] == ["many: one node was lost", "a note"]


def test_machines_see_the_same() -> None:
    """Each row with whether it is met."""
    document = json.loads(to_json("Title", ROWS, []))
    assert [row["is_met"] for row in document["rows"]] == [True, False, None]


def test_a_model_that_is_off_by_a_tenth_is_told_of() -> None:
    """By how much, and why that can be; nothing is said where they agree."""
    assert "differ by 20%" in model_notes(ROWS)[0]
    assert model_notes([Row("x", 1.0, modelled=1.09)]) == []
    assert "counts as 40" in scale_note(40.0)

import json
from dataclasses import replace

import pytest

from pairproxy.cli.bench.rounds import Result
from pairproxy.cli.bench.show import lines, report, to_json


@pytest.mark.slow
def test_people_see_policies_side_by_side_in_lines_that_fit(
    result: Result, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row per policy below the titles; bounds and the scale in words below."""
    monkeypatch.setenv("COLUMNS", "80")
    report(result)
    shown = capsys.readouterr().out.splitlines()
    assert max(len(line.rstrip()) for line in shown) <= 80
    assert [line.split()[0] for line in shown[:3]] == ["policy", "fastest-finish", "least-busy"]
    text = " ".join(" ".join(shown).split())
    assert "Best single node: fast" in text
    assert "40 times as fast" in text
    assert "each of their milliseconds counts as 40" in text


@pytest.mark.slow
def test_minutes_stand_side_by_side_too(
    result: Result, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Makespans of some thousand seconds leave a row per policy on 80 characters."""
    monkeypatch.setenv("COLUMNS", "80")
    slow = [
        replace(one, makespan_s=6480.04, ttft_p50_s=100.0, ttft_p90_s=5000.0, modelled_s=6400.0)
        for one in result.figures
    ]
    report(replace(result, figures=tuple(slow)))
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown[:3]] == ["policy", "fastest-finish", "least-busy"]
    assert "6480 s" in shown[1]


@pytest.mark.slow
def test_every_column_is_explained(result: Result) -> None:
    """Whoever has not read the documentation knows what a number is."""
    said = " ".join(lines(result))
    for word in (
        "makespan:",
        "spread:",
        "Speedups are",
        "bound:",
        "hits:",
        "TTFT and p90:",
        "model:",
        "Without fast-forward",
    ):
        assert word in said


@pytest.mark.slow
def test_machines_get_one_document(result: Result) -> None:
    """The figures of each policy, the bounds and what they mean; numbers that agree with each other."""
    document = json.loads(to_json(result))
    assert (document["workload"], document["requests"], document["best_node"]) == ("burst", 6, "fast")
    for one in document["policies"]:
        assert one["speedup"] == pytest.approx(document["bounds"]["alone_s"] / one["makespan_s"])
        assert 0 < one["efficiency"] <= 1
    assert document["bounds"]["provable"] >= 1.0


@pytest.mark.slow
def test_a_model_that_is_off_and_a_bound_of_one_are_said(result: Result) -> None:
    """Beyond a tenth the difference is in words; so is that nothing could be gained."""
    first, *rest = result.figures
    off = replace(first, modelled_s=first.makespan_s * 1.5)
    said = " ".join(lines(replace(result, figures=(off, *rest), bounds=replace(result.bounds, provable=1.0))))
    assert "fastest-finish: modelled and measured differ by 50%" in said
    assert "more machines cannot help" in said

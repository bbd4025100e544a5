from dataclasses import replace

from pairproxy.api.schema import Record, Report
from pairproxy.cli.report_text import continued, requests, sentences
from pairproxy.core.accounting.alone import T1
from pairproxy.core.accounting.losses import IN_WORDS, Losses
from pairproxy.core.accounting.report import report_run
from pairproxy.core.accounting.runs import group_runs
from pairproxy.core.models import ModelName, Rates
from tests.core.accounting.conversation import A, B, at, served


def test_chains_bounds_and_losses_are_told_in_lines() -> None:
    """What the report of a run with two chains on two nodes reads like."""
    records = [
        served(f"{name}{step}", 7.0 * step, 7.0 * step, 7.0 * step + 5.0, node, run="job", tokens=40,
               prefix=tuple(name * 100 + block for block in range(step + 1)), prompt=64 * (step + 1) + 1,
               cached=64 * step)
        for name, node in ((1, A), (2, B)) for step in range(3)
    ]  # fmt: skip
    (run,) = group_runs(records)
    places = {at(node): (1, {ModelName("m"): Rates(1000.0, 10.0, 0.0)}) for node in (A, B)}
    t1 = T1(31.0, "modelled", A, 0.05)
    lines = sentences(report_run(run, {A: 1, B: 1}, t1, places=places, t1_local=T1(38.0, "modelled", B)))
    text = "\n".join(lines)
    assert "6 requests (6 done) in 19.00 s" in lines
    assert "384 of 774 prompt tokens (50%) came from a cache" in lines
    assert "2 chains of 6 steps (longest 3), tools between them 8.0 s; the longest takes 19.0 s" in text
    assert "with each step where it is soonest" in text
    assert "capacity 2.00" in text
    assert "speedup 1.63 against the best node alone (modelled: 31.00 s)" in lines
    assert "speedup 2.00 against this machine alone" in lines
    assert "of the possible gain" in text
    assert "beyond that: idle with nothing to do" in text
    assert "so more machines cannot help much." in text


def test_it_says_which_replies_went_on_at_another_node() -> None:
    """By the ids that explain takes, the first of them; nothing where none did."""

    def record(name: str, continued: int) -> Record:
        return Record(name, "a", "e", "done", 0.0, 0.0, 0.5, 2.0, 9, 9, 2, "r", continued=continued)

    assert continued(Report(None, (record("r1", 0),), {})) == []
    found = Report(None, (*(record(f"r{number}", 1) for number in range(7)), record("other", 0)), {})
    lost = "lost their node and went on at another (see `pairproxy explain`): "
    assert continued(found) == [lost + "r0, r1, r2, r3, r4 and 2 more"]


def test_what_went_wrong_says_why_or_the_command_that_does() -> None:
    """With its id in it, ready to be copied; of many the first five, and how many more."""

    def record(name: str, error: str) -> Record:
        return Record(name, "a", "e", "failed", 0.0, 0.0, None, 2.0, None, None, 1, "r", error=error)

    told = requests(Report(None, (record("1a2b3c4d5e", ""), record("5e6f", "No node has it.")), {}))
    assert told == ["1a2b3c4d failed: see `pairproxy explain 1a2b3c4d`", "5e6f failed: No node has it."]
    many = requests(Report(None, tuple(record(f"r{number}", "") for number in range(7)), {}))
    assert many[-1] == "and 2 more; `pairproxy report --json` has them all"


def test_what_was_lost_in_small_parts_is_told_in_one() -> None:
    """A colon has something behind it."""
    records = [served("a", 0.0, 0.0, 10.0, A, run="job"), served("b", 0.0, 0.0, 10.2, B, run="job")]
    (run,) = group_runs(records)
    report = report_run(run, {A: 1, B: 1}, None)
    small = Losses(*[0.004 * report.makespan_s] * len(IN_WORDS))
    lines = sentences(replace(report, lower_bound_s=9.9, losses=small))
    (line,) = [line for line in lines if line.startswith("no schedule")]
    assert line.endswith(f"beyond that: {small.total_s:.2f} s for many small reasons")

from pathlib import Path

import msgspec

from pairproxy.api.schema import Record, Report
from pairproxy.cli.report import continued, sentences
from pairproxy.core.accounting.alone import T1
from pairproxy.core.accounting.report import report_run
from pairproxy.core.accounting.runs import group_runs
from pairproxy.core.models import ModelName, Rates
from tests.core.accounting.conversation import A, B, at, served
from tests.support.command import here, sentence
from tests.support.daemons import Daemons, Node, settings


def test_without_a_daemon_it_says_so_and_exits_with_3(home: Path) -> None:
    """As status does."""
    done = here("report", "--home", home)
    assert (done.returncode, sentence(done)) == (
        3,
        "No daemon is running here. Start one with `pairproxy up`.",
    )


def test_it_shows_a_named_run_with_its_bound(live: list[Node]) -> None:
    """Who did how much, how long it took, and the waves bound next to it."""
    done = here("report", "--home", live[0].home, "--run", "nightly")
    assert (done.returncode, done.stderr) == (0, "")
    rows = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if line[1:2] in ("A", "B")}
    assert rows == {"A": "2", "B": "2"}
    assert "4 requests (4 done)" in done.stdout
    assert "waves bound 2.00 (4 requests, 2 slots; equal nodes only)" in done.stdout


def test_it_prints_one_json_document(live: list[Node]) -> None:
    """--json is the schema's Report: the run, its records, the names of the nodes."""
    done = here("report", "--home", live[0].home, "--run", "nightly", "--json")
    report = msgspec.json.decode(done.stdout, type=Report)
    assert report.run is not None
    assert report.run.requests == len(report.records) == 4
    assert set(report.names.values()) == {"A", "B"}


def test_a_run_that_is_not_there_is_an_error(live: list[Node]) -> None:
    """Exit status 1 and a sentence; odd names come to the daemon as they are."""
    for name in ("never", "never / ever & more?", "ümlaut"):
        done = here("report", "--home", live[0].home, "--run", name)
        assert done.returncode == 1
        assert "no run of this name" in sentence(done)


def test_before_the_first_request_it_says_what_to_do(tmp_path: Path) -> None:
    """A fresh daemon has no run to report, which is no error."""
    with Daemons(tmp_path) as daemons:
        daemons.home("A", settings())
        (node,) = daemons.start("A")
        done = here("report", "--home", node.home)
        assert done.returncode == 0
        assert "No request came to this machine yet" in done.stdout


def test_it_says_which_requests_were_slowest(live: list[Node]) -> None:
    """By the beginnings of the ids that `pairproxy explain` takes."""
    done = here("report", "--home", live[0].home, "--run", "nightly")
    slowest = next(line for line in done.stdout.splitlines() if line.startswith("slowest: "))
    ids = {record.request[:8] for record in live[0].report("nightly").records}
    assert slowest.removeprefix("slowest: ").split()[0] in ids
    assert "pairproxy explain" in done.stdout


def test_the_json_can_be_replayed(live: list[Node]) -> None:
    """It has the recording, which the text does without."""
    done = here("report", "--home", live[0].home, "--run", "nightly", "--json")
    recording = msgspec.json.decode(done.stdout, type=Report).recording
    assert recording is not None
    assert len(recording.requests) == 4
    assert {place.kind for place in recording.places} == {"paced"}


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

from pathlib import Path

import msgspec

from pairproxy.api.schema import Report
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
        assert "No request came to this machine since its daemon started" in done.stdout


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

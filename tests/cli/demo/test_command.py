import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.command import environment, here, pairproxy, sentence
from tests.support.daemons import until
from tests.support.embedded import model_cache

SHORT = ("--engine", "paced", "--rounds", "1", "--tokens", "8")
ENDLESS = ("--engine", "paced", "--rounds", "20", "--tokens", "512")


class Demo:
    """A running demo with a temporary directory of its own."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        self.temporary = temporary
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pairproxy", "demo", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(TMPDIR=str(temporary)),
        )  # fmt: skip
        self._seen: dict[int, psutil.Process] = {}

    def started(self) -> list[psutil.Process]:
        """Everything it started so far, nodes and engines, also what has ended meanwhile."""
        if self.process.poll() is None:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                self._seen[child.pid] = child
        return list(self._seen.values())

    def until_it_works(self, count: int) -> None:
        """Wait until ``count`` processes run and a leg has begun: its title is on standard error."""
        until(lambda: len(self.started()) >= count and self._is_ready(), "the demo is at work", 40.0)

    def _is_ready(self) -> bool:
        files = list(self.temporary.glob("pairproxy-demo-*/*/daemon.json"))
        return len(files) == 2

    def end(self, number: signal.Signals) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """The demo's temporary directory; what a failed test left running is ended."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    yield directory
    for process in psutil.process_iter(["cmdline"]):
        if any(str(directory) in part for part in process.info["cmdline"] or []):
            process.kill()


@pytest.mark.slow
def test_json_is_one_document_on_standard_output_and_nothing_else() -> None:
    """Machines can read it as it is: every key that was promised, a text for every request, exit status 0."""
    done = pairproxy("demo", *SHORT, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["discovered_by"] == "mdns"
    assert document["speedup"] > 0
    assert [bool(reply["text"].strip()) for reply in document["replies"]] == [True] * 5


@pytest.mark.parametrize(
    ("number", "status"),
    [
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 143, marks=pytest.mark.slow),
    ],
)
def test_a_signal_in_the_middle_leaves_nothing(temporary: Path, number: signal.Signals, status: int) -> None:
    """Ctrl-C, a service manager, a closed terminal: all that it started is gone, without a traceback."""
    demo = Demo(temporary, *ENDLESS)
    demo.until_it_works(2)
    started = demo.started()
    returned, out, err = demo.end(number)
    assert (returned, out, "Traceback" in err) == (status, "", False)
    assert psutil.wait_procs(started, timeout=5)[1] == []
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_killing_the_demo_ends_its_nodes(temporary: Path) -> None:
    """kill -9 leaves no node: each sees its standard input end. The next demo removes the directory."""
    demo = Demo(temporary, *ENDLESS)
    demo.until_it_works(2)
    started = demo.started()
    demo.end(signal.SIGKILL)
    assert psutil.wait_procs(started, timeout=15)[1] == []
    assert len(list(temporary.iterdir())) == 1
    one_node_is_enough(temporary)
    assert list(temporary.iterdir()) == []


def one_node_is_enough(temporary: Path) -> None:
    """With a single node there is nothing to find and nothing to balance, and the report says so."""
    done = pairproxy("demo", *SHORT, "--nodes", "1", "--requests", "2", "--json", TMPDIR=str(temporary))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["nodes"], document["discovered_by"]) == (1, None)
    assert any("Only one node took part" in line for line in document["explanation"])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_embedded_engines_end_with_the_demo(temporary: Path, number: signal.Signals) -> None:
    """Nodes and llama.cpp children are gone within seconds, whether it was asked to end or killed."""
    model_cache()
    demo = Demo(temporary, "--rounds", "20", "--tokens", "512")
    demo.until_it_works(4)
    started = demo.started()
    assert len(started) >= 4  # two nodes, two engines
    demo.end(number)
    assert psutil.wait_procs(started, timeout=15)[1] == []


@pytest.mark.slow
def test_the_demo_as_a_stranger_runs_it() -> None:
    """Two embedded engines: real text for every request, both nodes at work, a speedup next to its bound."""
    model_cache()
    done = pairproxy("demo", "--rounds", "1", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert all(tally["requests"] for tally in document["per_node"].values())
    assert [bool(reply["text"].strip()) for reply in document["replies"]] == [True] * 5
    assert 0 < document["efficiency"] <= 1


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--nodes", "0"), "1"),
        (("--nodes", "two"), "integer"),
        (("--requests", "65"), "64"),
        (("--engine", "cuda"), "embedded"),
        (("--tokens",), "--tokens"),
    ],
)
def test_wrong_usage_is_said_before_anything_starts(arguments: tuple[str, ...], names: str) -> None:
    """Exit status 2, with what would be right."""
    done = here("demo", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert arguments[0] in done.stderr
    assert names in done.stderr


def test_a_cache_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    """The model has nowhere to go: which directory, and what to do; exit status 1."""
    (tmp_path / "file").write_text("")
    done = pairproxy("demo", PAIRPROXY_CACHE=str(tmp_path / "file" / "cache"))
    assert done.returncode == 1
    assert str(tmp_path / "file") in sentence(done)

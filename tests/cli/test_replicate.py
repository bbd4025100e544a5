"""pairproxy replicate: its words, its lines, and what it says in the wrong hands."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from pairproxy.api.replication import CopyProgress
from pairproxy.cli.replicate import in_words
from tests.cli.test_json import DOCUMENT, wrong
from tests.replicating.conftest import Pair, two_daemons
from tests.support.command import environment, here, pairproxy, sentence
from tests.support.terminal import Terminal

BASE = CopyProgress("NODE", "copying", "m:1", "ben", is_to_here=False)


def told(**fields: object) -> str:
    """How a line looks on a terminal."""
    return in_words(msgspec.structs.replace(BASE, **fields))


def test_a_line_says_how_far_how_fast_and_how_long() -> None:
    """In units that people read; what is not known is left out."""
    part = {"done_bytes": 1_200_000_000, "total_bytes": 4_400_000_000, "blob": 2, "blobs": 5}
    assert (
        told(**part, bytes_per_s=95e6, left_s=34.0) == "1.20 GB of 4.40 GB, 95 MB/s, 34 s left (part 2 of 5)"
    )
    assert told(**part) == "1.20 GB of 4.40 GB (part 2 of 5)"
    assert "12 min left" in told(**part, bytes_per_s=1e6, left_s=725.0)
    assert "1:05 min left" in told(**part, bytes_per_s=1e6, left_s=65.2)
    assert told(**part, state="verifying") == "checking the hashes of 4.40 GB"
    assert told(state="checking") == "looking what is there"
    assert told(**part, problem="ben does not\x1b[2J answer") == "ben does not[2J answer"


@pytest.mark.parametrize(
    "arguments",
    [(), ("m:1",), ("m:1", "--to", "A", "--from", "B"), ("m:1", "--to", "A", "--limit", "0"), ("--to", "A")],
)
def test_wrong_usage(home: Path, arguments: tuple[str, ...]) -> None:
    """Exit status 2, and what is missing."""
    failed = here("replicate", *arguments, "--home", home)
    assert failed.returncode == 2
    assert failed.stdout == ""


def test_without_a_daemon_it_says_how_to_start_one(home: Path) -> None:
    """Exit status 3, before it looks at anything else."""
    failed = here("replicate", "m:1", "--to", "ben", "--home", home)
    assert failed.returncode == 3
    assert "Start one with `pairproxy up`." in sentence(failed)


@pytest.mark.slow
def test_the_bar_its_end_and_its_lines(tmp_path: Path) -> None:
    """On a terminal a bar and one sentence; Ctrl-C says that nothing is lost; --json is as published."""
    with two_daemons(tmp_path) as pair:
        pair.allow()
        pair.at_a.add("big:1", 30_000_000)
        status, screen = on_terminal(pair, "--limit", "4", stop_at="MB/s,")
        assert status == 130
        assert "Stopped. Run it again and it goes on where it stopped." in screen
        assert pair.at_b.names() == ["own:1"]
        status, screen = on_terminal(pair)
        assert status == 0
        assert screen.strip() == "B has big:1 now (30.0 MB, every part checked)."
        lines = here("replicate", "own:1", "--from", "B", "--json", "--home", pair.a.home).stdout.splitlines()
        schema = DOCUMENT["x-commands"]["pairproxy replicate --json"]
        assert [wrong(schema, json.loads(line)) for line in lines] == [[]] * len(lines)
        plainly = pairproxy("replicate", "big:1", "--to", "B", "--home", pair.a.home)
        assert plainly.stdout == "B has big:1 already, with the same content.\n"
        assert "\x1b" not in plainly.stdout + plainly.stderr


def on_terminal(pair: Pair, *more: str, stop_at: str = "") -> tuple[int, str]:
    """Run it on a terminal; Ctrl-C as soon as ``stop_at`` is seen. (exit status, screen at its end)."""
    command = [
        sys.executable,
        "-m",
        "pairproxy",
        "replicate",
        "big:1",
        "--to",
        "B",
        "--home",
        str(pair.a.home),
    ]
    env = environment(TERM="xterm-256color")
    with Terminal([*command, *more], columns=100, lines=24, env=env) as terminal:
        if stop_at:
            terminal.until(lambda: stop_at in terminal.text, "it tells its speed")
            terminal.type("\x03")
        status = terminal.wait()
        return status, terminal.text

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from pairproxy.api.client import DAEMON_FILE
from pairproxy.api.schema import DaemonFile, Status
from tests.support.command import here, pairproxy, sentence
from tests.support.daemons import Node


def daemon_file(home: Path, **fields: object) -> None:
    """Leave a daemon.json as a killed daemon does."""
    file = DaemonFile(
        pid=dead_pid(), node="N" * 52, name="gone", admin_port=9, peer_port=None, client_ports={}
    )
    (home / DAEMON_FILE).write_bytes(msgspec.json.encode(msgspec.structs.replace(file, **fields)))


def dead_pid() -> int:
    """The id of no process."""
    return next(pid for pid in range(os.getpid() + 1000, 4_000_000) if not psutil.pid_exists(pid))


def test_without_a_daemon_it_says_so_and_exits_with_3(home: Path) -> None:
    """One sentence that names the command to start one; nothing on standard output, also with --json."""
    for more in ([], ["--json"]):
        done = here("status", "--home", home, *more)
        assert done.returncode == 3
        assert sentence(done) == "No daemon is running here. Start one with `pairproxy up`."


def test_it_starts_without_the_network_libraries(home: Path) -> None:
    """Neither aiohttp nor zeroconf nor the daemon is imported, as Python itself tells."""
    done = pairproxy("status", "--home", home, flags=("-X", "importtime"))
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "pairproxy.api.client" in imported
    heavy = ("aiohttp", "zeroconf", "asyncio", "cryptography", "pairproxy.daemon", "prometheus", "sqlite3")
    assert not {name for name in imported if name.startswith(heavy)}


def test_a_home_that_a_killed_daemon_left_counts_as_without(home: Path) -> None:
    """A stale daemon.json leads to a sentence with the old process, and to exit status 3."""
    daemon_file(home)
    done = here("status", "--home", home)
    assert done.returncode == 3
    assert "does not answer" in sentence(done)
    assert "pairproxy up" in sentence(done)


def test_a_port_that_went_to_another_daemon_counts_as_without(home: Path, live: list[Node]) -> None:
    """The daemon that now has the port is not taken for the one of this home."""
    daemon_file(home, admin_port=live[0].file.admin_port)
    done = here("status", "--home", home)
    assert (done.returncode, "does not answer" in sentence(done)) == (3, True)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}'])
def test_a_damaged_daemon_file_counts_as_without(home: Path, content: str) -> None:
    """What is no daemon.json is none."""
    (home / DAEMON_FILE).write_text(content)
    done = here("status", "--home", home)
    assert (done.returncode, sentence(done)) == (
        3,
        "No daemon is running here. Start one with `pairproxy up`.",
    )


def test_it_shows_every_node_with_its_engine_and_speed(live: list[Node]) -> None:
    """A page for people: both nodes, how B was found, what is served, what was done, what limits."""
    done = here("status", "--home", live[0].home)
    assert (done.returncode, done.stderr) == (0, "")
    table = done.stdout
    (own,) = [line for line in table.splitlines() if line.split()[:1] == ["A"]]
    (other,) = [line for line in table.splitlines() if line.split()[:1] == ["B"]]
    assert "Nothing runs or waits here" in table
    assert ("paced:1b" in own, "0/1" in own, "this machine" in own) == (True, True, True)
    assert ("paced:1b" in other, "via mDNS" in other) == (True, True)
    assert re.search(r"0 running, 0 waiting, (\d+) ended \(\1 done\)", table)


@pytest.mark.parametrize("command", ["status", "report"])
def test_on_a_narrow_terminal_every_row_is_a_block(live: list[Node], command: str) -> None:
    """At 40 columns no cell is cut or folded into its neighbour: one line a cell, below the node's name."""
    done = here(command, "--home", live[0].home, COLUMNS="40")
    lines = done.stdout.splitlines()
    assert {"node: A", "node: B"} <= set(lines)
    assert max(len(line) for line in lines[lines.index("node: A") : lines.index("node: B") + 3]) <= 40
    assert "\u2026" not in done.stdout


def test_no_colour_beats_a_forced_one(live: list[Node]) -> None:
    """NO_COLOR means no escape sequence at all, bold neither; without it FORCE_COLOR has its way."""
    assert "\x1b" not in here("status", "--home", live[0].home, FORCE_COLOR="1").stdout
    assert "\x1b[1m" in here("status", "--home", live[0].home, FORCE_COLOR="1", NO_COLOR="").stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_an_output_that_takes_nothing_is_a_sentence(live: list[Node], more: list[str]) -> None:
    """A full disk behind standard output: exit status 1, no traceback."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pairproxy", "status", "--home", live[0].home, *more],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "The output cannot be written: No space left" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="file descriptors of POSIX")
def test_an_output_that_is_closed_is_nobody_s_wish_for_a_traceback(live: list[Node]) -> None:
    """As behind `>&-`, and in services that have none."""
    command = [sys.executable, "-m", "pairproxy", "status", "--home", str(live[0].home)]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_left_is_no_error_worth_a_word(live: list[Node]) -> None:
    """As behind `head`: nothing on standard error."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as left:
        done = subprocess.run(
            [sys.executable, "-m", "pairproxy", "status", "--home", live[0].home],
            stdout=left,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.stderr == ""


def test_it_prints_one_json_document(live: list[Node]) -> None:
    """--json is the schema's Status and nothing else."""
    done = here("status", "--home", live[0].home, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    status = msgspec.json.decode(done.stdout, type=Status)
    assert {node.name: node.is_self for node in status.nodes} == {"A": True, "B": False}
    assert json.loads(done.stdout)["requests_done"] >= 4


def test_it_finds_the_home_by_the_environment(live: list[Node]) -> None:
    """PAIRPROXY_HOME does what --home does."""
    done = here("status", "--json", PAIRPROXY_HOME=str(live[1].home))
    assert json.loads(done.stdout)["name"] == "B"

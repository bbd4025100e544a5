import json
import os
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
    heavy = ("aiohttp", "zeroconf", "asyncio", "cryptography", "pairproxy.daemon")
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
    """A table for people: both nodes, how B was found, what is served, what was done."""
    done = here("status", "--home", live[0].home)
    assert (done.returncode, done.stderr) == (0, "")
    table = done.stdout
    (own,) = [line for line in table.splitlines() if line.split()[:1] == ["A"]]
    (other,) = [line for line in table.splitlines() if line.split()[:1] == ["B"]]
    assert ("paced:1b" in own, "0/1" in own, "this machine" in own) == (True, True, True)
    assert ("paced:1b" in other, "mdns" in other) == (True, True)
    assert "0 running, 0 waiting" in table


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

"""A daemon under a service manager that keeps its sockets: one of our own, for where no systemd boots."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pairproxy.api.client import read_daemon_file
from pairproxy.cli.demo.cluster import node_environment, up_command
from tests.support.daemons import settings, until
from tests.support.free_ports import free_port
from tests.support.supervising import Supervisor

ROOT = Path(__file__).parents[2]


class Kept:
    """A daemon that is kept alive, with one fixed client port."""

    def __init__(self, home: Path, manager: Supervisor, port: int) -> None:
        self.home = home
        self.manager = manager
        self.port = port

    @property
    def statuses(self) -> list[str]:
        """What it said of itself."""
        return [one["STATUS"] for one in self.manager.said if "STATUS" in one]


def configure(home: Path, port: int) -> None:
    """Write its settings."""
    text = settings(paced={"decode": 500.0})
    text = text.replace('listen = "127.0.0.1:0"\nslots', f'listen = "127.0.0.1:{port}"\nslots')
    (home / "config.toml").write_text(text)


@pytest.fixture
def kept(home: Path, tmp_path: Path) -> Iterator[Kept]:
    """One that serves."""
    port = free_port()
    home.mkdir(mode=0o700, exist_ok=True)
    configure(home, port)
    command = [one for one in up_command(home) if one != "--stop-on-eof"]
    with (tmp_path / "log").open("wb") as log, Supervisor(command, node_environment(), log=log) as manager:
        manager.until_ready(1)
        yield Kept(home, manager, port)


@contextmanager
def hammered(kept: Kept, stop: Path) -> Iterator[dict[str, float]]:
    """Clients come all the time inside of the block; the counts are there after it."""
    line = [sys.executable, "-m", "tests.support.hammering", str(kept.port), str(stop)]
    counts: dict[str, float] = {}
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        try:
            yield counts
            time.sleep(0.2)  # some more come and go
        finally:
            stop.touch()
        counts |= json.loads(process.stdout.read())
    stop.unlink()


@pytest.mark.slow
def test_a_restart_and_a_kill_refuse_nobody(kept: Kept, tmp_path: Path) -> None:
    """F37: whoever comes in between waits in the socket that the manager keeps, and is answered."""
    with hammered(kept, tmp_path / "stop") as counts:
        kept.manager.restart()
        kept.manager.until_ready(2)
    assert (counts["refused"], counts["broken"], counts["other"]) == (0, 0, 0), counts
    with hammered(kept, tmp_path / "stop") as counts:
        kept.manager.kill()
        kept.manager.until_ready(3)
    assert (counts["refused"], counts["other"]) == (0, 0), counts
    assert counts["broken"] <= 4 * 2  # what was under way, once for each client
    assert counts["whole"] > 0


@pytest.mark.slow
def test_it_says_what_it_is_at(kept: Kept) -> None:
    """Ready with its ports, reloading and ready again, stopping; its sockets are known by address."""
    assert f"paced on 127.0.0.1:{kept.port}" in kept.statuses[0]
    assert {f"front-{kept.port}-v4"} <= set(kept.manager.kept)
    subprocess.run(
        [sys.executable, "-m", "pairproxy", "reload", "--home", str(kept.home)],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    kept.manager.until_said("RELOADING")
    kept.manager.until_said("READY", count=2)
    kept.manager.stop()
    kept.manager.until_said("STOPPING")


@pytest.mark.slow
def test_a_port_that_is_not_wanted_any_more_is_given_back(kept: Kept) -> None:
    """The settings have another one: the socket that was kept for the old one is closed, and refuses."""
    old, new = kept.port, free_port()
    configure(kept.home, new)
    kept.manager.restart()
    kept.manager.until_ready(2)
    until(lambda: f"front-{old}-v4" not in kept.manager.kept, "the manager dropped it")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", old), 5.0)
    assert new in read_daemon_file(kept.home).client_ports.values()


@pytest.mark.slow
def test_a_start_that_fails_says_why_and_does_not_hurry(kept: Kept) -> None:
    """The manager starts it again at once, whatever is wrong: the daemon itself takes its time."""
    (kept.home / "config.toml").write_text("[node]\nnme = 1\n")
    kept.manager.restart()
    until(lambda: "Did you mean node.name?" in kept.statuses[-1], "it says why")
    assert kept.manager.lives == 2
    assert kept.manager.said[-1]["ERRNO"] != "0"

"""`pairproxy status --watch` on a terminal, with real daemons."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytest.importorskip("fcntl", reason="there are no terminals of this kind here")

from tests.support.asking import Asker
from tests.support.command import here, sentence
from tests.support.daemons import Daemons, Node, settings, until
from tests.support.terminal import LEAVES, Terminal


def watching(home: Path, columns: int = 80, lines: int = 24, **environment: str) -> Terminal:
    """The command as a person runs it."""
    plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
    env = plain | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"} | environment
    command = [sys.executable, "-m", "pairproxy", "status", "--watch", "--home", str(home)]
    return Terminal(command, columns=columns, lines=lines, env=env)


def test_without_a_daemon_it_says_so_and_exits_with_3(home: Path) -> None:
    """As without --watch."""
    for more in ([], ["--json"]):
        done = here("status", "--watch", "--home", home, *more)
        assert done.returncode == 3
        assert sentence(done) == "No daemon is running here. Start one with `pairproxy up`."


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_slots_fill_and_empty_while_requests_run(live: list[Node], size: tuple[int, int]) -> None:
    """Both nodes with their cells, the requests, then none of them; nothing scrolls."""
    with watching(live[0].home, *size) as terminal:
        terminal.until(lambda: "q quits" in terminal.text, "it draws")
        assert terminal.text.count("0/1") == 2
        asker = Asker(live[0].port, headers={"X-Pairproxy-Run": "watched"})
        replies = [asker.start(f"look {number}", tokens=200) for number in range(5)]
        terminal.until(lambda: terminal.text.count("1/1") == 2, "both slots are busy")
        terminal.until(lambda: "○" in terminal.text.partition("\n")[2].partition("\n")[0], "something waits")
        terminal.until(lambda: "█" in terminal.text, "one writes")
        assert all(reply.result().is_whole for reply in replies)
        terminal.until(lambda: terminal.text.count("0/1") == 2, "both are free again")
        terminal.until(lambda: "run watched" in terminal.text, "the run is told")
        assert terminal.scrolled == 0
        terminal.type("q")
        assert terminal.wait() == 0


@pytest.mark.slow
def test_a_daemon_that_is_started_anew_is_shown_again(tmp_path: Path) -> None:
    """Meanwhile it is said that there are no news."""
    with Daemons(tmp_path) as daemons:
        daemons.home("A", settings())
        (node,) = daemons.start("A")
        daemons.until_connected()
        with watching(node.home) as terminal:
            terminal.until(lambda: "paced" in terminal.text, "it draws")
            assert node.stop() == 0
            terminal.until(lambda: "No news for" in terminal.text, "it is told")
            (again,) = daemons.start("A")
            daemons.until_connected(again)
            terminal.until(lambda: "No news for" not in terminal.text, "it goes on")
            assert "paced" in terminal.text
            terminal.send(signal.SIGTERM)
            assert terminal.wait() == 0
            assert LEAVES in terminal.raw


@pytest.mark.slow
def test_a_dumb_terminal_gets_a_page_a_second(live: list[Node]) -> None:
    """One below the other, without an escape sequence, until Ctrl-C."""
    with watching(live[0].home, TERM="dumb") as terminal:
        terminal.until(lambda: terminal.raw.count(b"pairproxy A") >= 2, "two pages")
        terminal.type("\x03")
        assert terminal.wait() == 0
        assert b"\x1b" not in terminal.raw


@pytest.mark.slow
def test_for_programs_there_is_a_line_of_json_for_each_status(live: list[Node]) -> None:
    """A reader that leaves ends it quietly."""
    command = [sys.executable, "-m", "pairproxy", "status", "--watch", "--json", "--home", str(live[0].home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdout.close()
        assert process.wait(20) == 0
        assert process.stderr.read() == b""
    assert [one["name"] for one in told] == ["A", "A"]


def test_the_watcher_leaves_nothing_behind(live: list[Node]) -> None:
    """The daemon has no connection of it left."""
    port = live[0].file.admin_port

    def is_connected() -> bool:
        found = psutil.Process(live[0].pid).net_connections("tcp")
        return any(one.laddr.port == port and one.status == psutil.CONN_ESTABLISHED for one in found)

    with watching(live[0].home) as terminal:
        terminal.until(lambda: "q quits" in terminal.text, "it draws")
        terminal.type("q")
        assert terminal.wait() == 0
    until(lambda: not is_connected(), "it is gone")

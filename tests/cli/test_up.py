import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.support.asking import Asker, Got
from tests.support.command import here, sentence
from tests.support.daemons import Daemons, Node, settings, until
from tests.support.terminal import Terminal


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that this process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        yield holder.getsockname()[1]


def with_config(home: Path, text: str) -> Path:
    """The home with this config.toml."""
    (home / "config.toml").write_text(text)
    return home


# --- what stops it from starting ------------------------------------------------------------------------


def test_on_an_occupied_port_it_says_who_has_it_and_how_to_go_on(home: Path, taken: int) -> None:
    """The program and its process id, and the setting that would avoid it; exit status 1."""
    text = settings().replace('listen = "127.0.0.1:0"\nslots', f'listen = "127.0.0.1:{taken}"\nslots')
    done = here("up", "--home", with_config(home, text))
    assert done.returncode == 1
    said = sentence(done)
    assert f"Port {taken} is taken by" in said
    assert f"(pid {os.getpid()})" in said
    assert "engines.listen" in said


def test_a_port_that_another_pairproxy_has_is_said_so(daemons: Daemons, home: Path) -> None:
    """By its command line: that of a Python says nothing."""
    daemons.home("A", settings())
    (node,) = daemons.start("A")
    done = here("up", "--home", home, "--engine", "paced", "--listen", f"127.0.0.1:{node.port}")
    assert done.returncode == 1
    assert f"Port {node.port} is taken by another pairproxy (pid {node.pid})" in sentence(done)


def test_an_engine_of_our_own_keeps_what_the_settings_say_of_it(daemons: Daemons) -> None:
    """--engine picks the entry of that kind with its port and slots; the others are left out."""
    text = settings(slots=3) + '[[engines]]\nkind = "ollama"\nurl = "http://127.0.0.1:9"\nlisten = ""\n'
    daemons.home("A", text)
    node = daemons.launch("A", "--engine", "paced")
    until(lambda: "serves" in node.log, "it starts")
    (engine,) = node.status().nodes[0].engines
    assert (engine.kind, engine.slots, list(node.file.client_ports)) == ("paced", 3, ["paced"])


def test_listen_goes_with_engine(home: Path) -> None:
    """Alone it is wrong usage; what is no address is an error with its name."""
    assert here("up", "--home", home, "--listen", "127.0.0.1:1").returncode == 2
    done = here("up", "--home", home, "--engine", "paced", "--listen", "11434")
    assert (done.returncode, "--listen = '11434'" in sentence(done)) == (1, True)


def test_yes_goes_with_takeover(home: Path) -> None:
    """Alone there is nothing that would be asked: whoever wrote it meant a takeover."""
    done = here("up", "--home", home, "--yes")
    assert (done.returncode, "--takeover" in done.stderr) == (2, True)


def test_help_says_how_it_ends() -> None:
    """Nobody reads a manual after Ctrl-C."""
    said = " ".join(here("up", "--help").stdout.split())
    assert "30 s at most" in said
    assert "second Ctrl-C" in said


def test_on_an_occupied_admin_port_it_asks_for_the_other_pairproxy(home: Path, taken: int) -> None:
    """The admin port is told apart from an engine's."""
    text = settings(admin={"listen": f"127.0.0.1:{taken}"})
    done = here("up", "--home", with_config(home, text))
    assert done.returncode == 1
    assert f"(pid {os.getpid()})" in sentence(done)
    assert "admin.listen" in sentence(done)


@pytest.mark.parametrize("key", ["admin", "engines"])
@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.168.0.1:11434", "[::]:0", "example.org:80"])
def test_no_plain_port_leaves_this_machine(home: Path, key: str, address: str) -> None:
    """Ports that ask for no proof are refused on every address but loopback, before anything is bound."""
    text = settings(admin={"listen": address}) if key == "admin" else settings()
    if key == "engines":
        text = text.replace('listen = "127.0.0.1:0"\nslots', f'listen = "{address}"\nslots')
    done = here("up", "--home", with_config(home, text))
    assert done.returncode == 1
    assert f"{key}.listen = {address!r} could be reached from other machines" in sentence(done)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('[routing]\npolcy = "least-busy"\n', "routing.policy"),
        ('[rooting]\npolicy = "least-busy"\n', "routing"),
        ('[routing]\npolicy = "least-bussy"\n', "'least-busy'"),
        ('[[engines]]\nkind = "paced"\nslotz = 2\n', "engines.slots"),
    ],
)
def test_a_wrong_setting_names_the_nearest_right_one(home: Path, text: str, names: str) -> None:
    """The file, the wrong key and the one that was probably meant; exit status 1."""
    done = here("up", "--home", with_config(home, text))
    assert done.returncode == 1
    assert f"Did you mean {names}?" in sentence(done)


def test_a_home_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """A file in the place of the home is named, and what to do about it."""
    (tmp_path / "home").write_text("")
    done = here("up", "--home", tmp_path / "home", "--engine", "paced")
    assert done.returncode == 1
    assert str(tmp_path / "home") in sentence(done)


@pytest.mark.skipif(os.name != "posix", reason="POSIX modes")
def test_a_home_that_others_can_read_is_refused(home: Path) -> None:
    """The sentence is the command that mends it."""
    home.chmod(0o755)
    done = here("up", "--home", home, "--engine", "paced")
    assert done.returncode == 1
    assert f"chmod 700 '{home}'" in sentence(done)


def test_a_second_daemon_of_a_home_is_refused(daemons: Daemons) -> None:
    """It names the process that has the home, and leaves that one alone."""
    home = daemons.home("A", settings())
    (node,) = daemons.start("A")
    done = here("up", "--home", home)
    assert done.returncode == 1
    assert f"Another pairproxy (pid {node.pid}) runs with the home {home}." in sentence(done)
    assert node.status().name == "A"


def test_wrong_usage_has_its_own_exit_status(home: Path) -> None:
    """An unknown engine or level is a matter of usage: 2, with what would be right."""
    done = here("up", "--home", home, "--engine", "ollamma")
    assert (done.returncode, "embedded" in done.stderr) == (2, True)
    done = here("up", "--home", home, "--log-level", "loud")
    assert (done.returncode, "warning" in done.stderr) == (2, True)


# --- how it ends ----------------------------------------------------------------------------------------


def streaming(daemons: Daemons, tokens: int) -> tuple[Node, "Future[Got]"]:
    """A daemon with a reply under way that takes ``tokens`` / 50 s."""
    daemons.home("A", settings(paced={"decode": 50.0}))
    (node,) = daemons.start("A")
    reply = Asker(node.port).start("go on", tokens=tokens)
    until(lambda: any(one.has_first_byte for one in node.status().running), "it streams")
    return node, reply


def test_what_it_says_when_it_is_ready(daemons: Daemons) -> None:
    """One line: the name, the engine's port, and the port for status."""
    daemons.home("A", settings())
    (node,) = daemons.start("A")
    ready = (
        f"A serves paced on 127.0.0.1:{node.port}; no machine is paired yet; "
        f"status on 127.0.0.1:{node.file.admin_port}"
    )
    assert node.log.splitlines().count(ready) == 1, node.log  # the log's thread may be sooner with a line
    assert Asker(node.port).ask(tokens=1).status == 200


def test_on_a_terminal_no_address_is_broken_apart(home: Path) -> None:
    """What it says when it is ready takes more than a line of 60 columns, and breaks between words."""
    command = [sys.executable, "-m", "pairproxy", "up", "--home", str(with_config(home, settings()))]
    with Terminal(command, columns=60, lines=24, env=os.environ) as terminal:
        terminal.until(lambda: "status on 127.0.0.1:" in " ".join(terminal.text.split()), "it is ready")
        terminal.type("\x03")
        assert terminal.wait() == 0
        said = terminal.raw.decode().replace("\r", "")
    told = re.search(r"[^\n]+ serves .*?status on\s+127\.0\.0\.1:\d+", said, re.DOTALL)
    assert told is not None, said
    lines = told[0].splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 60 for line in lines), lines


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_lets_a_running_reply_end(daemons: Daemons, number: signal.Signals) -> None:
    """The stream is whole, new clients are turned away meanwhile, and the exit status is 0."""
    node, reply = streaming(daemons, tokens=30)
    port = node.port
    node.send(number)
    until(lambda: is_refused(port), "the port is closed")
    got = reply.result()
    assert (got.is_whole, len(got.lines())) == (True, 31)
    assert node.wait() == 0
    assert not (node.home / "daemon.json").exists()


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(daemons: Daemons) -> None:
    """A reply that would take half a minute is broken off, without an end that looks whole."""
    node, reply = streaming(daemons, tokens=1500)
    node.send(signal.SIGTERM)
    until(lambda: "stopping; 1 request running" in node.log, "it drains")
    node.send(signal.SIGTERM)
    assert node.wait() == 0  # which does not wait for half a minute
    got = reply.result()
    assert not got.is_whole
    assert not any(line.get("done") for line in got.lines())


def test_it_ends_with_its_standard_input_if_told_to(daemons: Daemons) -> None:
    """--stop-on-eof: whoever started it is gone, however that happened."""
    daemons.home("A", settings())
    (node,) = daemons.start("A")
    assert node.process.stdin is not None
    node.process.stdin.close()
    assert node.wait() == 0
    assert "stopping; nothing runs and nothing waits" in node.log


def test_it_can_be_stopped_while_it_starts(daemons: Daemons) -> None:
    """A signal during a long start ends it at once and cleanly, before it ever was ready."""
    home = daemons.home("A", settings(paced={"decode": 1.0}))  # 24 s to measure
    node = daemons.launch("A")
    until((home / "daemon.lock").exists, "it starts")
    assert node.stop() == 0  # which does not wait for 24 s
    assert "serves" not in node.log
    assert "stopped while starting" in node.log


def is_refused(port: int) -> bool:
    """Whether nobody listens on a port any more."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return True
    return False

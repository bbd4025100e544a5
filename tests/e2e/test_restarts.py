"""Ends and beginnings of real daemons: killed ones, full disks, stale files, neighbours of other versions."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pairproxy.api.client import DAEMON_FILE
from pairproxy.api.schema import DaemonFile
from pairproxy.cli.demo.cluster import node_environment, up_command
from tests.support.asking import Asker
from tests.support.command import here, sentence
from tests.support.daemons import Daemons, Node, settings, until
from tests.support.free_ports import free_port

pytestmark = pytest.mark.slow

SMALL = "128k"  # a disk that holds a home, and little more


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


def fixed(**ports: int) -> str:
    """Settings with ports that stay."""
    text = settings(paced={"decode": 50.0}, admin={"listen": f"127.0.0.1:{ports['admin']}"})
    return text.replace('listen = "127.0.0.1:0"\nslots', f'listen = "127.0.0.1:{ports["client"]}"\nslots')


def is_streaming(node: Node) -> bool:
    """Whether a reply of it is under way."""
    return any(one.has_first_byte for one in node.status().running)


def test_after_kill_9_the_next_start_has_the_same_ports_at_once(daemons: Daemons) -> None:
    """F37: open connections of the old life keep no port; commands tell the truth in between.

    With a service manager nobody is refused meanwhile: tests/e2e/test_supervised.py, tests/service/.
    """
    ports = {"client": free_port(), "admin": free_port()}
    home = daemons.home("A", fixed(**ports))
    (node,) = daemons.start("A")
    reply = Asker(node.port).start("go on", tokens=500)
    until(lambda: is_streaming(node), "it streams")
    node.kill()
    assert not reply.result().is_whole
    said = here("status", "--home", home)
    assert (said.returncode, "pairproxy up" in sentence(said)) == (3, True)
    (again,) = daemons.start("A")
    assert again.file.pid == again.pid
    assert Asker(ports["client"]).ask(tokens=2).is_whole


def test_after_a_stop_the_port_is_anybodys_at_once(daemons: Daemons) -> None:
    """F38: who uninstalls pairproxy can start the engine on its port the same moment."""
    ports = {"client": free_port(), "admin": free_port()}
    daemons.home("A", fixed(**ports))
    (node,) = daemons.start("A")
    assert Asker(node.port).ask(tokens=2).is_whole
    assert node.stop() == 0
    with socket.create_server(("127.0.0.1", ports["client"])):
        pass


def test_a_stale_file_whose_process_id_is_another_programs_now(daemons: Daemons) -> None:
    """The process that has the id lives; no command takes it for the daemon, and a start takes no notice."""
    home = daemons.home("A", settings())
    stale = DaemonFile(os.getpid(), "N" * 52, "old", free_port(), None, {"paced": free_port()}, token="old")
    (home / DAEMON_FILE).write_bytes(msgspec.json.encode(stale))
    for command in ("status", "reload", "report"):
        said = here(command, "--home", home)
        assert (said.returncode, "pairproxy up" in sentence(said)) == (3, True), command
    (node,) = daemons.start("A")
    assert Asker(node.port).ask(tokens=2).is_whole


def test_while_it_starts_the_address_of_a_killed_one_is_told_to_nobody(daemons: Daemons) -> None:
    """The next life removes it before anything that takes long, so nobody is sent to the dead."""
    home = daemons.home("A", settings(paced={"decode": 1.0}))  # 24 s to measure
    stale = DaemonFile(1, "N" * 52, "old", free_port(), None, {}, token="old")
    (home / DAEMON_FILE).write_bytes(msgspec.json.encode(stale))
    daemons.launch("A")
    until(lambda: not (home / DAEMON_FILE).exists(), "the old address is removed")
    said = here("up", "--home", home)
    assert (said.returncode, "(pid" in sentence(said)) == (1, False)


# --- full disks -----------------------------------------------------------------------------------------


def can_mount() -> bool:
    """Whether this user may have a small disk of its own."""
    line = ["unshare", "-Urm", "mount", "-t", "tmpfs", "-o", f"size={SMALL}", "none", "/mnt"]
    return shutil.which("unshare") is not None and not subprocess.run(line, capture_output=True).returncode


def on_a_small_disk(daemons: Daemons, name: str, first: str = "true", program: str = "") -> Node:
    """A daemon whose home is a disk of 128 KiB that only it sees; ``first`` is done there before."""
    home = daemons.home(name, settings())
    log_file = home.parent / f"{name}-small.log"
    inside = home.parent / f"{name}-mounted"
    inside.mkdir()
    command = up_command(inside)
    if program:
        command = [command[0], "-c", program, *command[3:]]
    script = (
        f"mount -t tmpfs -o size={SMALL},mode=700 none {shlex.quote(str(inside))} && "
        f"cp {shlex.quote(str(home / 'config.toml'))} {shlex.quote(str(inside))} && "
        f"cd {shlex.quote(str(inside))} && {first}; exec {shlex.join(command)}"
    )
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "-Urm", "sh", "-c", script], stdin=subprocess.PIPE, stdout=log, stderr=log,
            env={"PYTHONPATH": str(Path.cwd())} | node_environment(),
        )  # fmt: skip
    node = Node(name, Path(f"/proc/{process.pid}/root{inside}"), process, log_file)
    daemons.nodes.append(node)
    return node


EAGER = """
from pairproxy import speeds
from pairproxy.cli import main
speeds.SAVE_S = 0.2  # instead of half a minute
main()
"""
FILL = "dd if=/dev/zero of=filler bs=1k 2>/dev/null"


@pytest.mark.skipif(not can_mount(), reason="no user namespace with a tmpfs of its own here (unshare -Urm)")
def test_a_full_disk_stops_nothing_and_is_said_once(daemons: Daemons) -> None:
    """F35: requests are served; one sentence says what will not be known, another that it is again."""
    node = on_a_small_disk(daemons, "A", program=EAGER)
    until(lambda: "serves paced" in node.log, "it is ready")
    with pytest.raises(OSError, match="No space left"):
        (node.home / "filler").write_bytes(bytes(1024 * 1024))
    got = Asker(node.port).ask(tokens=20)
    assert (got.status, got.is_whole) == (200, True)
    until(lambda: "No space left on device" in node.log, "it says that the disk is full")
    assert Asker(node.port).ask(tokens=30).is_whole
    until(lambda: node.status().outcomes == {"done": 2}, "both are counted")
    (node.home / "filler").unlink()
    until(lambda: "is written again" in node.log, "it goes on by itself")
    assert (node.home / "speeds.json").exists()
    node.send(signal.SIGTERM)
    assert node.process.wait(15.0) == 0
    node.is_expected_to_fail = True  # its home went with it
    assert node.log.count("No space left on device") == 1
    assert "Traceback" not in node.log


@pytest.mark.skipif(not can_mount(), reason="no user namespace with a tmpfs of its own here (unshare -Urm)")
def test_a_start_on_a_full_disk_says_so(daemons: Daemons) -> None:
    """F36: the first start makes no half of an identity: one sentence names the file and the reason."""
    node = on_a_small_disk(daemons, "A", FILL)
    assert node.process.wait(30.0) == 1
    node.is_expected_to_fail = True
    lines = node.log.strip().splitlines()
    assert len(lines) == 1, node.log
    assert "No space left on device" in lines[0]


# --- other versions -------------------------------------------------------------------------------------

NEWER = """
def other(document):
    document["invented"] = {"later": [1]}
    for engine in document["engines"]:
        engine["invented"] = True
        for replica in engine["replicas"]:
            replica["invented"] = replica["replica"]["invented"] = "x"
"""
OLDER = """
def other(document):
    for name in ("wanted", "catalogue"):
        document.pop(name, None)
    for engine in document["engines"]:
        for name in ("promises", "foreign", "prefixes", "waiting"):
            engine.pop(name, None)
        for replica in engine["replicas"]:
            replica.pop("continues", None)
"""
MAIN = """
import json, sys
from pairproxy.peers import exchange
real = exchange._encode
def encode(value):
    document = json.loads(real(value))
    if "engines" in document and "sequence" in document:
        other(document)
        sys.stderr.write("published\\n") if not published else None
        published.append(1)
    return json.dumps(document).encode()
published = []
exchange._encode = encode
from pairproxy.cli import main
main()
"""


@pytest.mark.parametrize("version", [NEWER, OLDER], ids=["newer", "older"])
def test_a_neighbour_of_another_version_works_with_this_one(daemons: Daemons, version: str) -> None:
    """What it tells more is not minded, what it does not tell yet has a default: both serve both."""
    daemons.home("A", settings(paced={"decode": 50.0}))
    daemons.home("B", settings(paced={"decode": 50.0}))
    daemons.pair("A", "B")
    (a,) = daemons.start("A")
    b = launch_other(daemons, "B", version + MAIN)
    daemons.until_connected(a, b)
    assert "published" in b.log
    for origin, other in ((a, b), (b, a)):
        replies = [Asker(origin.port).start(f"task {number}", tokens=40) for number in range(4)]
        got = [reply.result() for reply in replies]
        assert {(one.status, one.is_whole) for one in got} == {(200, True)}
        assert other.id in {one.node for one in got}


def launch_other(daemons: Daemons, name: str, program: str) -> Node:
    """A daemon of another version: this one, with what it publishes changed on its way out."""
    home = daemons.home(name, settings(paced={"decode": 50.0}))
    log_file = home.parent / f"{name}-other.log"
    arguments = up_command(home)[3:]
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=log, stderr=log,
            env=node_environment(),
        )  # fmt: skip
    node = Node(name, home, process, log_file)
    daemons.nodes.append(node)
    until(lambda: "serves paced" in node.log, f"{name} starts")
    return node

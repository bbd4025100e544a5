"""What is told to a service manager arrives, what it passes is taken, and without one nothing happens."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pairproxy.config import Settings
from pairproxy.core.errors import ConfigError
from pairproxy.service.supervised import FIRST, STATUS_CHARACTERS, Supervisor
from tests.support import supervising
from tests.support.running import run_async

ROOT = Path(__file__).parents[2]

CHILD = """
import json, os, socket
from pairproxy.service.supervised import Supervisor
supervisor = Supervisor.here()
got = supervisor.inherited()
told = {name: sock.getsockname()[1] for name, sock in got}
left = sorted(one for one in os.environ if one.startswith(("LISTEN_", "NOTIFY_", "WATCHDOG_")))
if not got:
    mine = socket.create_server(("127.0.0.1", 0))
    supervisor.keep("front-v4", mine)
    got = [("front-v4", mine)]
supervisor.ready(json.dumps({"told": told, "left": left, "again": supervisor.inherited()}))
got[0][1].setblocking(True)
while True:
    caller, _ = got[0][1].accept()
    caller.sendall(str(os.getpid()).encode())
    caller.close()
"""


@pytest.fixture
def door(tmp_path: Path) -> Iterator[socket.socket]:
    """Where a manager listens, by a path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(5.0)
        yield listening


def heard(door: socket.socket) -> tuple[dict[str, str], list[int]]:
    """The next message as its words, and the descriptors that came with it."""
    text, given, _, _ = socket.recv_fds(door, 8192, 8)
    return dict(line.partition("=")[::2] for line in text.decode().splitlines()), list(given)


def told_at(door: socket.socket) -> dict[str, str]:
    """The environment that such a manager gives."""
    return {"NOTIFY_SOCKET": str(door.getsockname())}


def test_without_a_manager_nothing_happens() -> None:
    """Who starts `pairproxy up` in a terminal has no manager; everything can be said all the same."""
    supervisor = Supervisor.here({"HOME": "/nowhere"})
    assert not supervisor.is_there
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert not supervisor.keep("front", sock)
    assert not supervisor.drop("front")
    supervisor.ready("serves")
    supervisor.reloading()
    supervisor.stopping()
    assert supervisor.inherited() == []
    run_async(supervisor.feed())


def test_what_is_said_arrives(door: socket.socket) -> None:
    """Readiness with its line, reloading with the clock that systemd wants, the end."""
    supervisor = Supervisor(told_at(door))
    supervisor.ready("serves\nFDSTORE=1 ollama")
    assert heard(door) == ({"READY": "1", "STATUS": "serves FDSTORE=1 ollama"}, [])
    supervisor.status("x" * 9000)
    assert heard(door)[0] == {"STATUS": "x" * STATUS_CHARACTERS}
    supervisor.reloading()
    words, _ = heard(door)
    assert words["RELOADING"] == "1"
    assert int(words["MONOTONIC_USEC"]) > 0
    supervisor.stopping()
    assert heard(door)[0]["STOPPING"] == "1"


def test_a_socket_is_given_and_taken_back(door: socket.socket) -> None:
    """The manager gets a duplicate of the very socket, under its name, and is told when to close it."""
    supervisor = Supervisor(told_at(door))
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert supervisor.keep("front-11434-v4", sock)
        words, (given,) = heard(door)
        assert words == {"FDSTORE": "1", "FDNAME": "front-11434-v4"}
        with socket.socket(fileno=given) as duplicate:
            assert duplicate.getsockname() == sock.getsockname()
    assert supervisor.drop("front-11434-v4")
    assert heard(door) == ({"FDSTOREREMOVE": "1", "FDNAME": "front-11434-v4"}, [])


def test_an_inherited_socket_is_taken_by_its_address(door: socket.socket) -> None:
    """The one of another port, of settings that changed, is closed for everybody: its callers are refused."""
    with socket.create_server(("127.0.0.1", 0)) as wanted, socket.create_server(("127.0.0.1", 0)) as other:
        supervisor = Supervisor(told_at(door))
        supervisor._inherited = [
            ("front-v4", wanted.dup()),
            ("old-v4", other.dup()),
            ("pairproxy.socket", wanted.dup()),  # the same again, from a unit of sockets
        ]
        port = wanted.getsockname()[1]
        assert supervisor.take("127.0.0.2", port) is None
        taken = supervisor.take("127.0.0.1", port)
        assert taken is not None
        taken.close()
        supervisor.refuse_rest()
        assert heard(door) == ({"FDSTOREREMOVE": "1", "FDNAME": "old-v4"}, [])
        if sys.platform == "linux":
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(other.getsockname(), 5.0)
        socket.create_connection(wanted.getsockname(), 5.0).close()


def test_reading_settings_is_told(door: socket.socket) -> None:
    """Reloading before, ready after, also where the settings have a fault."""

    def faulty() -> Settings:
        raise ConfigError("no")

    supervisor = Supervisor(told_at(door))
    assert supervisor.hears_of(Settings)() == Settings()
    assert [sorted(heard(door)[0]) for _ in range(2)] == [["MONOTONIC_USEC", "RELOADING"], ["READY"]]
    with pytest.raises(ConfigError):
        supervisor.hears_of(faulty)()
    assert [sorted(heard(door)[0]) for _ in range(2)] == [["MONOTONIC_USEC", "RELOADING"], ["READY"]]


@pytest.mark.skipif(sys.platform != "linux", reason="names without a file exist on Linux only")
def test_a_manager_without_a_file() -> None:
    """systemd inside of a container listens at an abstract name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind("\0pairproxy-test-" + str(os.getpid()))
        door.settimeout(5.0)
        name = door.getsockname()
        Supervisor({"NOTIFY_SOCKET": "@" + name[1:].decode()}).ready("serves")
        assert heard(door)[0]["READY"] == "1"


def test_a_manager_that_is_gone_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be told is lost, and said once."""
    supervisor = Supervisor({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    supervisor.ready("serves")
    supervisor.stopping()
    assert [one.getMessage() for one in caplog.records] == [
        "the service manager does not listen: No such file or directory"
    ]


def test_a_manager_that_is_full_does_not_hold_the_daemon_up(door: socket.socket) -> None:
    """Nobody reads: what finds no room is lost, and the call returns."""
    supervisor = Supervisor(told_at(door))
    assert not all(supervisor.drop("front") for _ in range(100_000))


def test_signs_of_life(door: socket.socket) -> None:
    """Several in the time after which the manager loses patience."""

    async def feeding() -> None:
        task = asyncio.create_task(Supervisor(told_at(door) | {"WATCHDOG_USEC": "60000"}).feed())
        for _ in range(3):
            words, _ = await asyncio.to_thread(heard, door)
            assert words == {"WATCHDOG": "1"}
        task.cancel()
        await asyncio.wait([task])

    run_async(feeding())


@pytest.mark.parametrize(
    "told",
    [
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "-1", "LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "many", "LISTEN_PID": str(os.getpid())},
        {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
    ],
)
def test_what_is_meant_for_another_process_is_left_alone(told: dict[str, str]) -> None:
    """A child of a shell of a service sees its variables, and has no such descriptors."""
    supervisor = Supervisor(told)
    assert supervisor.inherited() == []
    run_async(supervisor.feed())


PASSED = """
import os
def is_closed(number):
    try:
        os.fstat(number)
    except OSError:
        return True
os.environ["LISTEN_PID"] = str(os.getpid())
from pairproxy.service.supervised import Supervisor
got = Supervisor.here().inherited()
print([(name, sock.getsockname()[1], sock.get_inheritable()) for name, sock in got])
print([number for number in (3, 4, 5) if number == got[0][1].fileno() or not is_closed(number)])
"""


def test_only_listening_sockets_are_taken(tmp_path: Path) -> None:
    """A file, a pipe's end and a socket that connects are closed; a child of ours gets none of them."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        plain = stack.enter_context(socket.socket())
        file = stack.enter_context((tmp_path / "file").open("w"))
        port = server.getsockname()[1]
        given = [file.fileno(), server.fileno(), plain.fileno()]
        environment = os.environ | {"LISTEN_FDS": "3", "LISTEN_FDNAMES": "a:front:b", "PYTHONPATH": str(ROOT)}
        line = supervising.become(given, [sys.executable, "-c", PASSED])
        done = subprocess.run(
            line, env=environment, pass_fds=given, capture_output=True, text=True, timeout=30, check=True
        )
    assert done.stdout.splitlines() == [f"[('front', {port}, False)]", f"[{FIRST + 1}]"]


def test_the_next_life_has_the_sockets_of_the_last() -> None:
    """kill -9: who connects in between waits and is answered by the next life; no variable is left over."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with supervising.Supervisor([sys.executable, "-c", CHILD], environment) as manager:
        manager.until_ready(1)
        first = manager.pid
        port = manager.kept["front-v4"].getsockname()[1]
        assert asked(port) == first
        manager.kill()
        second = asked(port)
        assert second not in (first, 0)
        manager.until_ready(2)
        assert f'"told": {{"front-v4": {port}}}, "left": [], "again": []' in manager.said[-1]["STATUS"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5.0)


def asked(port: int) -> int:
    """Which process answers there."""
    with socket.create_connection(("127.0.0.1", port), 10.0) as connection:
        return int(connection.recv(100) or b"0")

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pairproxy.takeover.moving import OwnerKind
from pairproxy.takeover.owning import Process, classify, clients_of, owner_of, process_of
from pairproxy.takeover.running import Runner
from tests.support.free_ports import free_port
from tests.support.stand_in_machine import StandInMachine

NOBODY = Runner({"PATH": ""})
ID = "0b3a" * 16
SYSTEM, BY_HAND = "0::/system.slice/", "/usr/local/bin/ollama"


def of_user(uid: int) -> str:
    """The cgroup of a unit of that user."""
    return f"0::/user.slice/user-{uid}.slice/user@{uid}.service/app.slice/o.service"


def test_nobody_holds_a_free_port() -> None:
    """None, not an error."""
    assert owner_of(free_port(), NOBODY) is None


def test_a_listening_process_is_found_with_its_addresses() -> None:
    """Whichever it is; other machines reach one on every address."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        owner = owner_of(server.getsockname()[1], NOBODY)
    assert owner is not None
    assert (owner.pid, owner.hosts, owner.is_exposed) == (os.getpid(), ("0.0.0.0",), True)
    assert f"pid {os.getpid()}" in owner.told()


def test_a_port_of_another_address_is_not_meant() -> None:
    """What listens on 127.0.0.1 only is exposed to nobody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        owner = owner_of(server.getsockname()[1], NOBODY)
    assert owner is not None
    assert not owner.is_exposed


KINDS: dict[str, tuple[Process, OwnerKind, str]] = {
    "unit": (
        Process(7, "ollama", uid=998, cgroup=f"{SYSTEM}ollama.service\n"), "systemd", "ollama.service",
    ),
    "unit of this person": (
        Process(7, "ollama", uid=1000, cgroup=of_user(1000)),
        "systemd-user", "o.service",
    ),
    "unit of another person": (
        Process(7, "ollama", uid=5, cgroup=of_user(5)),
        "other-user", "o.service",
    ),
    "docker's listener": (
        Process(7, "docker-proxy", uid=0, cgroup="0::/system.slice/docker.service\n"), "container", "",
    ),
    "in a container": (
        Process(7, "ollama", cgroup=f"0::/system.slice/docker-{ID}.scope\n"), "container", ID[:12],
    ),
    "snap": (Process(7, "ollama", cgroup=f"{SYSTEM}snap.ollama.listener.service\n"), "snap", "ollama"),
    "by hand": (
        Process(7, "ollama", BY_HAND, ("ollama", "serve"), 1000, has_terminal=True), "terminal", "",
    ),
    "by hand, in the background": (
        Process(7, "ollama", "/usr/local/bin/ollama", ("ollama", "serve"), 1000), "terminal", "",
    ),
    "another user": (Process(7, "ollama", uid=5), "other-user", ""),
    "hidden": (Process(None, uid=5, user="eve"), "other-user", ""),
    "ours": (Process(7, "python", "", ("python", "-m", "pairproxy", "up"), 1000), "pairproxy", ""),
    "unknown": (Process(7, "nginx", "/usr/sbin/nginx", ("nginx",), 1000), "unknown", ""),
    "LM Studio": (Process(7, "node", "/srv/x/.lmstudio/bin/node", ("node",), 1000), "lmstudio", "LM Studio"),
}  # fmt: skip


@pytest.mark.parametrize(("process", "kind", "unit"), KINDS.values(), ids=KINDS)
def test_what_started_a_process_is_told_by_its_marks(process: Process, kind: OwnerKind, unit: str) -> None:
    """From what the system tells of it."""
    owner = classify(process, 11434, ("127.0.0.1",), NOBODY, own_cgroup="0::/\n", own_uid=1000)
    assert (owner.kind, owner.unit) == (kind, unit)


@pytest.mark.parametrize("is_user", [False, True], ids=["system", "user"])
def test_without_cgroups_systemd_is_asked(tmp_path: Path, *, is_user: bool) -> None:
    """Whose main process it is."""
    with StandInMachine(tmp_path, is_user=is_user) as machine:
        machine.start()
        pid = machine.pid()
        assert pid is not None
        runner = Runner(machine.environment())
        owner = classify(process_of(pid), machine.usual, ("127.0.0.1",), runner, "", os.getuid())
    assert (owner.kind, owner.unit) == ("systemd-user" if is_user else "systemd", "ollama.service")


def test_a_container_is_called_by_its_name(tmp_path: Path) -> None:
    """Docker tells which one publishes the port."""
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\n[ "$3" = publish=11434 ] && echo ollama-1\n')
    docker.chmod(0o755)
    runner = Runner({"PATH": f"{tmp_path}:/bin"})
    owner = classify(Process(7, "docker-proxy"), 11434, ("0.0.0.0",), runner, "", 1000)
    assert (owner.kind, owner.unit) == ("container", "ollama-1")


def test_a_process_that_is_gone_has_no_marks() -> None:
    """It ends between two looks."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert process_of(process.pid) == Process(process.pid)


def test_clients_are_told_but_for_those_left_out() -> None:
    """Each connection once, with the program behind it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = (
            f"import socket; s = socket.create_connection(('127.0.0.1', {port})); print(flush=True); input()"
        )
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        try:
            assert list(clients_of(port, [])) == [f"python (pid {child.pid})"]
            assert clients_of(port, [child.pid]) == ()
        finally:
            child.communicate(b"\n")


LISTEN = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(flush=True)
input()
"""


@pytest.mark.parametrize(
    ("name", "is_beside", "kind"),
    [
        ("ollama", False, "other-user"),
        ("docker-proxy", False, "container"),
        ("docker-proxy", True, "other-user"),
    ],
    ids=["an engine", "a container's listener", "a listener for another port"],
)
def test_what_the_kernel_hides_is_found_by_its_user(
    tmp_path: Path, name: str, kind: OwnerKind, *, is_beside: bool
) -> None:
    """Who is not root is not told whose a socket is, but which user's."""
    if os.getuid() != 0:
        pytest.skip("to be somebody else needs root")
    port = free_port()
    (tmp_path / name).symlink_to(sys.executable)
    words = [[str(tmp_path / name), "-c", LISTEN, str(port)]]
    if is_beside:
        words = [[sys.executable, "-c", LISTEN, str(port)], [*words[0][:-1], str(free_port())]]
    started = [subprocess.Popen(one, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for one in words]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        assert _as_nobody(port) == (kind, "None" if is_beside else str(started[0].pid))
    finally:
        for process in started:
            process.communicate(b"\n")


def _as_nobody(port: int) -> tuple[str, str]:
    """Kind and pid of the owner, as a user sees them who is not root."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            owner = owner_of(port, NOBODY)
            os.write(writing, f"{owner.kind} {owner.pid}".encode() if owner else b"none none")
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    kind, _, pid = os.read(reading, 100).decode().partition(" ")
    os.close(reading)
    return kind, pid

"""Faults that need a set-up of their own, for they cannot be taken away again: see tests.support.planted."""

import contextlib
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.api.diagnosis import Diagnosis
from pairproxy.history.store import FILE as HISTORY_FILE
from tests.support.command import here
from tests.support.daemons import until
from tests.support.doctored import Engine, SetUp
from tests.support.planted import SETTLED_S, Plant, peer_of, planted

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
ENDING: dict[str, tuple[str, Plant]] = {}


@planted(ENDING, "the daemon was stopped for a second", "loop-late")
def _daemon_was_stopped(rig: SetUp) -> Iterator[Diagnosis]:
    rig.start()
    rig.a.send(signal.SIGSTOP)
    time.sleep(1.0)  # this is how long it stands still
    rig.a.send(signal.SIGCONT)
    until(lambda: rig.is_whole(rig.a), "all is well again")
    yield rig.examined()


@planted(ENDING, "the daemon was killed", "daemon-silent")
def _daemon_was_killed(rig: SetUp) -> Iterator[Diagnosis]:
    rig.start()
    rig.a.kill()
    yield rig.examined()


@planted(ENDING, "the peer has forgotten this machine", "peer-refuses")
def _peer_forgot(rig: SetUp) -> Iterator[Diagnosis]:
    _, b = rig.start()
    assert here("forget", "A", "--home", b.home).returncode == 0
    until(lambda: "pair" in (peer_of(rig).problem or ""), "it hears of that")
    yield rig.examined()


@planted(ENDING, "the peer is off", "peer-away")
def _peer_is_off(rig: SetUp) -> Iterator[Diagnosis]:
    a, b = rig.start()
    b.stop()
    until(lambda: not peer_of(rig).is_up, "it is missed")
    until(lambda: a.status().uptime_s >= SETTLED_S, "the daemon has been there for a while")
    yield rig.examined()


@planted(ENDING, "the peer's clock is a minute behind", "clock-off")
def _clock_is_off(rig: SetUp) -> Iterator[Diagnosis]:
    if FAKETIME is None:
        pytest.skip("a wrong clock needs the package faketime")
    rig.daemons.start("A")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME": "-60s",
            "DONT_FAKE_MONOTONIC": "1",
        }.items():
            patch.setenv(name, value)
        rig.daemons.launch("B")
    until(lambda: rig.is_whole(rig.a), "both hear each other")
    yield rig.examined()


@planted(ENDING, "history was written by a newer version", "history-off")
def _history_is_newer(rig: SetUp) -> Iterator[Diagnosis]:
    file = rig.home / HISTORY_FILE
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 999")
    file.chmod(0o600)
    rig.start()
    until(lambda: rig.a.status().history_problem, "the daemon notices")
    yield rig.examined()


@planted(ENDING, "an engine holds the client port", "port-held")
def _port_is_held(rig: SetUp) -> Iterator[Diagnosis]:
    holder = Engine(rig.directory, "holder", rig.fronts["A"])
    holder.start()
    try:
        rig.start()
        yield rig.examined()
    finally:
        holder.stop()


@planted(ENDING, "another program on ::1 beside the client port", "port-shared")
def _port_is_shared(rig: SetUp) -> Iterator[Diagnosis]:
    with socket.socket(socket.AF_INET6) as stranger:
        stranger.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        stranger.bind(("::1", rig.fronts["A"]))
        stranger.listen()
        rig.start()
        yield rig.examined()

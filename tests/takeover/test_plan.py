import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from pairproxy.config import EngineSettings, Settings
from pairproxy.core.errors import ConfigError
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.moving import CannotTake
from pairproxy.takeover.plan import Pair, Planned, pairs, planned, refuse_in_flight
from pairproxy.takeover.record import Record, Taken
from pairproxy.takeover.running import Runner
from tests.support.engine_thread import in_thread
from tests.support.fake_ollama import ollama_surface
from tests.support.free_ports import free_port
from tests.support.stand_in_machine import StandInMachine


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandInMachine]:
    """A machine whose Ollama runs at its usual port."""
    with StandInMachine(tmp_path_factory.mktemp("box")) as machine:
        machine.start()
        yield machine


def seen(
    box: StandInMachine, record: Record | None = None, *, pair: Pair | None = None, daemon: int = 0
) -> Planned:
    """What would be done there."""
    machine = Machine(Runner(box.environment()))
    return planned(pair or pair_of(box), record or Record(), machine, daemon=daemon)


def pair_of(box: StandInMachine) -> Pair:
    """Its two ports."""
    return Pair("ollama", box.usual, box.moved)


def taken(box: StandInMachine, **changes: object) -> Taken:
    """A finished takeover of it, as the record has it."""
    made = Taken("ollama", box.usual, box.moved, "systemd", "ollama", (), is_done=True)
    return structs.replace(made, **changes)


def test_ports_are_those_of_the_settings() -> None:
    """With no engine described they are the usual ones of both kinds."""
    assert pairs(Settings()) == (Pair("ollama", 11434, 11534), Pair("lmstudio", 1234, 12340))
    assert pairs(Settings(), ["lmstudio"]) == (Pair("lmstudio", 1234, 12340),)
    entry = EngineSettings(kind="ollama", url="http://127.0.0.1:7001", listen="127.0.0.1:7000")
    assert pairs(Settings(engines=(entry,))) == (Pair("ollama", 7000, 7001),)


def test_settings_with_nothing_to_take_over_are_named() -> None:
    """It is config.toml that has to change."""
    entry = EngineSettings(kind="ollama", url="http://127.0.0.1:7001", listen="")
    with pytest.raises(ConfigError, match=r"engines\.listen"):
        pairs(Settings(engines=(entry,)))


def test_an_engine_at_its_port_is_taken(box: StandInMachine) -> None:
    """By the mover that fits its owner."""
    found = seen(box)
    assert (found.what, found.mover) == ("take", "systemd")
    assert f"Port {box.usual} is held by" in found.why


def test_nobody_there_is_nothing_to_take(box: StandInMachine) -> None:
    """Unless the engine is at its private port already."""
    found = seen(box, pair=Pair("ollama", free_port(), free_port()))
    assert (found.what, found.is_there) == ("none", False)
    moved = seen(box, pair=Pair("ollama", free_port(), box.usual))
    assert (moved.what, moved.is_there) == ("none", True)
    assert "not moved by pairproxy" in moved.why


def test_a_takeover_that_holds_is_left_alone(box: StandInMachine) -> None:
    """Also while the daemon is down."""
    pair = Pair("ollama", free_port(), box.usual)
    found = seen(box, Record((taken(box, usual=pair.usual, moved=box.usual),)), pair=pair)
    assert (found.what, found.is_there) == ("none", True)
    assert "taken over already" in found.why


def test_an_engine_that_is_back_is_moved_again(box: StandInMachine) -> None:
    """By the steps that the record has."""
    found = seen(box, Record((taken(box),)))
    assert found.what == "repair"
    assert "is back on port" in found.why


def test_a_takeover_that_was_broken_off_is_undone_first(box: StandInMachine) -> None:
    """Whatever the port looks like."""
    assert seen(box, Record((taken(box, is_done=False),))).what == "undo"


def test_another_program_is_left_alone(box: StandInMachine) -> None:
    """It has the port, and is no engine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        closing = threading.Thread(target=_close_all, args=(server,), daemon=True)
        closing.start()
        found = seen(box, pair=Pair("ollama", server.getsockname()[1], free_port()))
    assert found.what == "cannot"
    assert "does not answer as Ollama" in found.why


def _close_all(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            server.accept()[0].close()


def test_a_private_port_that_is_taken_is_said_before(box: StandInMachine) -> None:
    """Not found out with the engine down."""
    with in_thread(ollama_surface()) as engine:
        found = seen(box, pair=Pair("ollama", box.usual, engine.port))
    assert found.what == "cannot"
    assert f"private port {engine.port} is taken" in found.why


def test_our_own_front_is_no_owner(box: StandInMachine) -> None:
    """The daemon has the port: there is nothing to take."""
    pid = box.pid()
    assert pid is not None
    assert seen(box, daemon=pid).what == "none"


def test_an_engine_in_use_is_not_moved(box: StandInMachine) -> None:
    """Its restart would break off what runs; who uses it is named."""
    found = seen(box)
    refuse_in_flight(found, None, 0)
    with pytest.raises(CannotTake, match=r"2 for paired machines.*--now"):
        refuse_in_flight(found, None, 2)


def test_movers_need_a_directory_only_for_what_they_write(tmp_path: Path) -> None:
    """Looking changes nothing."""
    with StandInMachine(tmp_path) as machine:
        before = machine.tree()
        assert seen(machine).what == "none"
        assert machine.tree() == before

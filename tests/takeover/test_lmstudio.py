"""LM Studio is moved by its own command."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.takeover.lmstudio import LmStudio, lmstudio_home
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.moving import CannotTake, Move, Owner, OwnerKind
from pairproxy.takeover.owning import owner_of
from pairproxy.takeover.steps import Restart
from tests.support.moving_engines import Taking, front
from tests.support.stand_ins import StandIns


@pytest.fixture
def system(tmp_path: Path) -> Iterator[StandIns]:
    """A machine with LM Studio, whose server does not run yet."""
    with StandIns(tmp_path / "system", "lms") as system:
        yield system


def start(system: StandIns, *flags: str) -> Owner:
    """Let its server run at the usual port; who has the port then."""
    system.run("lms", "server", "start", "--port", str(system.usual), *flags)
    return owner(system)


def owner(system: StandIns) -> Owner:
    """Who has the usual port."""
    found = owner_of(system.usual, system.runner)
    assert found is not None
    return found


def move(system: StandIns, who: Owner) -> Move:
    """What is asked of the mover."""
    return Move("lmstudio", who, system.usual, system.moved)


def restart(system: StandIns, who: Owner) -> Restart:
    """The step that matters of the plan."""
    step = LmStudio().plan(move(system, who), Machine(system.runner)).steps[0]
    assert isinstance(step, Restart)
    return step


@pytest.mark.parametrize("flags", [(), ("--cors",)], ids=["plain", "cors"])
def test_both_ways_are_told_all_that_it_was_started_with(system: StandIns, flags: tuple[str, ...]) -> None:
    """What `lms server start` is not told it forgets."""
    step = restart(system, start(system, *flags))
    lms, moved, usual = system.runner.which("lms"), str(system.moved), str(system.usual)
    assert step.stop == (lms, "server", "stop")
    assert step.start == (lms, "server", "start", "--port", moved, "--bind", "127.0.0.1", *flags)
    assert step.start_again == (lms, "server", "start", "--port", usual, "--bind", "127.0.0.1", *flags)


def test_one_that_serves_to_the_network_needs_a_yes(system: StandIns) -> None:
    """Others lose it meanwhile; the way back has the old address."""
    plan = LmStudio().plan(move(system, start(system, "--bind", "0.0.0.0")), Machine(system.runner))
    assert "Other machines can reach this LM Studio now" in plan.warnings[0]
    assert plan.facts == {"cors": "false", "bind": "0.0.0.0"}
    step = plan.steps[0]
    assert isinstance(step, Restart)
    assert step.start_again[-2:] == ("--bind", "0.0.0.0")


def test_the_open_socket_counts_where_the_settings_say_otherwise(system: StandIns) -> None:
    """LMS_SERVER_HOST may have told it another address than LM Studio keeps."""
    start(system)
    who = Owner("lmstudio", system.usual, ("192.168.1.5",), 1)
    assert restart(system, who).start_again[-1] == "192.168.1.5"


def test_an_lms_that_knows_no_bind_is_not_told_one(system: StandIns) -> None:
    """Before October 2025; one that serves to the network cannot be moved with it."""
    (system.state / "old-lms").touch()
    assert "--bind" not in restart(system, start(system)).start
    with pytest.raises(CannotTake, match="Serve on Local Network"):
        restart(system, Owner("lmstudio", system.usual, ("0.0.0.0",), 1))


def test_a_server_that_is_not_where_lms_says_is_left_alone(system: StandIns) -> None:
    """Not running, and running at another port."""
    who = Owner("unknown", system.usual, ("127.0.0.1",), 1)
    with pytest.raises(CannotTake, match="is not running"):
        restart(system, who)
    system.run("lms", "server", "start", "--port", str(system.moved))
    with pytest.raises(CannotTake, match=f"at port {system.moved}"):
        restart(system, who)


def test_without_lms_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    """LM Studio installs the command when it is started."""
    with StandIns(tmp_path / "system") as system, pytest.raises(CannotTake, match="Start LM Studio once"):
        restart(system, Owner("lmstudio", system.usual, ("127.0.0.1",), 1))


@pytest.mark.parametrize("text", [None, "no json", '{"port": "x"}', '{"networkInterface": 7}', "[" * 9999])
def test_settings_that_cannot_be_read_are_a_reason_not_to_move_it(system: StandIns, text: str | None) -> None:
    """The way back would be a guess."""
    who = start(system)
    path = system.home / ".lmstudio" / ".internal" / "http-server-config.json"
    told = json.loads(path.read_text())
    (system.directory / "bin" / "lms").write_text(
        f"#!/bin/sh\necho '{json.dumps({'running': True, 'port': told['port']})}'\n"
    )
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(CannotTake, match="tell how to put it back"):
        restart(system, who)


def test_the_command_of_its_own_home_is_preferred(system: StandIns) -> None:
    """PATH may hold none, or that of another installation."""
    system.install(system.home / ".lmstudio" / "bin" / "lms")
    assert restart(system, start(system)).stop[0] == str(system.home / ".lmstudio" / "bin" / "lms")


def test_its_home_is_where_the_pointer_says(tmp_path: Path) -> None:
    """Else the old place, if it is there, else the new one."""
    assert lmstudio_home(tmp_path) == tmp_path / ".lmstudio"
    (tmp_path / ".cache" / "lm-studio").mkdir(parents=True)
    assert lmstudio_home(tmp_path) == tmp_path / ".cache" / "lm-studio"
    (tmp_path / ".lmstudio-home-pointer").write_text("/somewhere/else\n")
    assert lmstudio_home(tmp_path) == Path("/somewhere/else")


@pytest.mark.parametrize("kind", ["other-user", "container", "snap", "pairproxy"])
def test_what_this_person_cannot_command_is_not_its_affair(system: StandIns, kind: OwnerKind) -> None:
    """Another mover says no."""
    assert not LmStudio().applies(move(system, Owner(kind, system.usual, ("127.0.0.1",))))


def test_what_lms_says_before_the_answer_does_not_matter(system: StandIns) -> None:
    """Newer versions greet and warn."""
    who = start(system)
    lms = system.directory / "bin" / "lms"
    lms.rename(lms.with_name("real-lms"))
    lms.write_text('#!/bin/sh\necho "{ Welcome }"\nexec ' + f'{lms.with_name("real-lms")} "$@"\n')
    lms.chmod(0o755)
    system.install(lms.with_name("real-lms"))
    text = lms.with_name("real-lms").read_text()
    lms.with_name("real-lms").write_text(text.replace("'real-lms'", "'lms'"))
    assert restart(system, who).stop


def page(port: int, path: str = "/v1/models") -> tuple[int, str | None]:
    """What a page of the internet gets: the status, and who may read the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers={"Origin": "https://chat.example"})
        response = connection.getresponse()
        return response.status, response.getheader("Access-Control-Allow-Origin")
    finally:
        connection.close()


@pytest.mark.parametrize("flags", [(), ("--cors",)], ids=["plain", "cors"])
@pytest.mark.slow
def test_it_is_taken_over_and_released(system: StandIns, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """The port is answered all the time but for the restart, and LM Studio's settings come back.

    Pages may ask it if they might before.
    """
    who = start(system, *flags)
    files = system.files()
    with front(tmp_path / "daemon", system, "lmstudio") as node:
        taking = Taking(node, system, "lmstudio", LmStudio(), Machine(system.runner))
        taking.take(taking.plan(who), who)
        taking.check_served()
        assert page(system.usual) == ((200, "*") if flags else (403, None))
        taking.release()
        taking.check_back(files)


@pytest.mark.slow
def test_whatever_fails_it_is_put_back(system: StandIns, tmp_path: Path) -> None:
    """Each command of a takeover and of a release fails once."""
    start(system, "--cors")
    with front(tmp_path / "daemon", system, "lmstudio") as node:
        taking = Taking(node, system, "lmstudio", LmStudio(), Machine(system.runner))
        taking.check_interruptions(lambda: owner(system))

import json
import platform
import stat
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from pairproxy.api.schema import RunningStatus
from pairproxy.api.service import ServiceState
from pairproxy.core.errors import SetupError
from pairproxy.core.models import NodeId
from pairproxy.doctor import bundle
from pairproxy.doctor.examining import Examined, judge, scene_of
from pairproxy.doctor.facts import Facts
from pairproxy.peers.own_addresses import snapshot
from pairproxy.security.identity import load_or_create, short_id
from tests.support.asking import Asker
from tests.support.command import here
from tests.support.daemons import Daemons, settings, until
from tests.support.diagnosed import facts, status

USER, HOST_ADDRESS = "annamaria", "10.20.30.40"
TOKEN = "t0ken-of-the-admin-port-that-nobody-may-have"


def written(tmp_path: Path, known: Facts) -> tuple[dict[str, str], bundle.Written]:
    """The files of a bundle of a person called USER, and what is said of it."""
    scene = scene_of(tmp_path / USER / "pairproxy", {"HOME": str(tmp_path / USER), "USER": USER, "PATH": ""})
    path = tmp_path / "report.zip"
    told = bundle.write(path, scene, Examined(known, judge(known, "A" * 52, 1.0)))
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}, told


def test_it_holds_what_a_bug_report_needs(tmp_path: Path) -> None:
    """Findings, versions, status, models, settings; and it says what is inside and what was replaced."""
    files, told = written(tmp_path, facts())
    assert set(files) == {
        "diagnosis.json", "machine.json", "status.json", "models.json", "settings.json", "read-me.txt"
    }  # fmt: skip
    assert set(told.files) == set(files)
    machine = json.loads(files["machine.json"])
    assert (machine["history_schema"] > 0, "aiohttp" in machine["packages"]) == (True, True)
    assert machine["python_build"] == "optimised"
    assert json.loads(files["settings.json"])["routing"]["policy"] == "fastest-finish"
    assert "Replaced by stand-ins" in files["read-me.txt"]


def test_nobody_is_named_in_it(tmp_path: Path) -> None:
    """User, host, home, peers, ids and addresses are stand-ins, the same in every file."""
    peer = msgspec.structs.replace(status().nodes[1], name="Bens Laptop", address=f"{HOST_ADDRESS}:11634")
    known = facts(
        status=status(peer, name="annas-desk"), settings_problem=f"{tmp_path / USER}/x is not TOML."
    )
    files, _ = written(tmp_path, known)
    whole = "\n".join(files.values()).casefold()
    for word in (
        USER,
        str(tmp_path),
        "bens laptop",
        HOST_ADDRESS,
        "A" * 52,
        "AAAA-AAAA",
        platform.node(),
    ):
        assert word.casefold() not in whole, word
    assert "address-" in files["status.json"]
    assert "home-1/x is not TOML." in files["diagnosis.json"]


def test_what_clients_asked_for_is_not_in_it(tmp_path: Path) -> None:
    """Neither what runs nor the names of runs."""
    running = RunningStatus("r" * 32, "m:1b", None, None, 1.0, has_first_byte=True, run="my divorce")
    files, _ = written(tmp_path, facts(status=status(running=(running,))))
    assert "divorce" not in "".join(files.values())
    assert "running" not in json.loads(files["status.json"])


def test_the_service_s_log_is_in_it_redacted(tmp_path: Path) -> None:
    """Without the names of runs; of a log in a file its end."""
    log = tmp_path / "pairproxy.log"
    log.write_text(
        f'INFO request ended model=m:1b run="my divorce" node=desk\nINFO {USER} at {HOST_ADDRESS}\n'
        '{"message": "x", "run": "my divorce", "node": "desk"}\n'
    )
    service = ServiceState("launchd", is_installed=True, log=str(log))
    files, _ = written(tmp_path, facts(services=(service,)))
    told = files["log.txt"]
    assert told.splitlines()[0] == "INFO request ended model=m:1b run=(left out) node=node-1"
    assert all(word not in told for word in ("divorce", USER, HOST_ADDRESS))


def test_secrets_of_settings_are_not_told() -> None:
    """Whatever a field calls a key, a token or a password, and the way to one."""
    told = bundle._without_secrets(
        {"api_key_file": "/x", "engines": [{"token": "y", "url": "u"}], "keys": ""}
    )
    assert told == {"api_key_file": "(set)", "engines": [{"token": "(set)", "url": "u"}], "keys": ""}


@pytest.mark.parametrize("what", ["key", "token"])
def test_a_secret_that_would_slip_in_stops_it(tmp_path: Path, what: str) -> None:
    """A last look before it is written: a line of the key, the token of the admin port."""
    home = tmp_path / USER / "pairproxy"
    home.parent.mkdir()
    load_or_create(home)
    (home / "daemon.json").write_text(json.dumps({"token": TOKEN}))
    secret = (home / "key.pem").read_text().splitlines()[1] if what == "key" else TOKEN
    with pytest.raises(SetupError, match="A secret of this machine"):
        written(tmp_path, facts(settings_problem=f"{secret} is odd."))
    assert not (tmp_path / "report.zip").exists()


def test_it_overwrites_nothing(tmp_path: Path) -> None:
    """And says so; the same for a directory that is not there."""
    (tmp_path / "report.zip").write_text("mine")
    with pytest.raises(SetupError, match="is there already"):
        written(tmp_path, facts())
    assert (tmp_path / "report.zip").read_text() == "mine"
    scene = scene_of(tmp_path, {"HOME": str(tmp_path), "PATH": ""})
    with pytest.raises(SetupError, match="cannot be written"):
        bundle.write(tmp_path / "no" / "x.zip", scene, Examined(facts(), judge(facts(), "", 0.0)))


@pytest.mark.slow
def test_of_a_daemon_at_work_no_word_and_no_name_is_in_it(tmp_path: Path) -> None:
    """Prompts, runs, peers, the person, the key, the token, each address: none of them, in any file of it."""
    with Daemons(tmp_path / "canaryhome") as daemons:
        for name in ("canarydesk", "canarylaptop"):
            daemons.home(name, settings())
        daemons.pair("canarydesk", "canarylaptop")
        desk, laptop = daemons.start("canarydesk", "canarylaptop")
        daemons.until_connected()
        asker = Asker(desk.port, headers={"X-Pairproxy-Run": "canaryrun"})
        for reply in [asker.start(f"canaryprompt {number}", tokens=8) for number in range(4)]:
            assert reply.result().is_whole
        until(lambda: desk.report("canaryrun").records, "the run is recorded")
        file = tmp_path / "report.zip"
        surroundings = {"HOME": str(tmp_path / "canaryhome"), "USER": "canaryuser"}
        done = here("doctor", "--bundle", file, "--home", desk.home, **surroundings)
        secrets = [desk.file.token, desk.id, laptop.id, desk.id[:8], short_id(NodeId(laptop.id))]
        secrets += (desk.home / "key.pem").read_text().splitlines()[1:-1]
    assert "report.zip holds" in done.stderr
    with zipfile.ZipFile(file) as archive:
        whole = "\n".join(archive.read(name).decode() for name in archive.namelist())
    own = {one.address for one in snapshot()} - {"127.0.0.1", "::1"}
    for word in (*secrets, *own, platform.node(), str(tmp_path), "canary"):
        assert word.casefold() not in whole.casefold(), word
    assert "node-1" in whole

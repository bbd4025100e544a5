"""What each command prints with --json is as the published schema says, and so is what the daemon serves."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pairproxy.api.openapi import ENDPOINTS, JSON, STREAM, build
from pairproxy.api.printed import PRINTED
from pairproxy.security.identity import load_or_create
from pairproxy.service.wanted import MARK
from tests.cli.test_trusting import befriend
from tests.support.command import here, pairproxy
from tests.support.daemons import Node
from tests.support.stand_in_machine import StandInMachine

DOCUMENT = build()


def wrong(schema: dict[str, Any], value: Any) -> list[str]:
    """What does not fit, by its path."""
    checker = jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]})
    return [f"{error.json_path}: {error.message[:200]}" for error in checker.iter_errors(value)]


def printed(command: str, text: str) -> list[str]:
    """What is wrong with what a command printed."""
    return wrong(DOCUMENT["x-commands"][f"pairproxy {command} --json"], json.loads(text))


ASKED: dict[str, list[list[str]]] = {
    "status": [[]],
    "report": [[], ["--run", "nightly"], ["--all"], ["--since", "1d"]],
    "explain": [["last"]],
    "models": [[], ["--model", "paced*"]],
    "advise": [[]],
    "whatif": [[], ["--add", "box=4:2000:50"]],
    "peers": [[]],
    "reload": [[]],
    "drain": [["--for", "1s"]],
    "resume": [[]],
    "bench": [["--levers", "--rounds", "1"]],
}
"""Commands that a running daemon can be asked, and how."""
ELSEWHERE = {
    "doctor",
    "keys add",
    "keys list",
    "keys revoke",
    "config show",
    "config check",
    "config path",
    "replicate",
    "release",
    "takeover",
    "service install",
    "service status",
    "service uninstall",
    "rights",
    "forget",
    "demo",
    "pair",
    "join",
}
"""Commands that other tests of this file, or slow ones, look at."""


@pytest.mark.parametrize(("command", "more"), [(name, one) for name, all_ in ASKED.items() for one in all_])
def test_what_a_command_prints_is_what_was_published(live: list[Node], command: str, more: list[str]) -> None:
    """Of a daemon that has served a run."""
    done = here(command, *more, "--home", live[0].home, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert printed(command, done.stdout) == []


def test_no_command_is_left_out() -> None:
    """A new one with --json is asked somewhere here."""
    assert set(PRINTED) == set(ASKED) | ELSEWHERE


def test_what_an_export_and_a_watch_print_is_published(live: list[Node], tmp_path: Path) -> None:
    """A file is written, and told of; of a watch each line is a document."""
    done = here("report", "--all", "--export", tmp_path / "runs.csv", "--home", live[0].home, "--json")
    assert printed("report", done.stdout) == []
    command = [sys.executable, "-m", "pairproxy", "status", "--watch", "--json", "--home", str(live[0].home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
    assert printed("status", line) == []


def test_what_is_printed_without_a_daemon_is_published_too(home: Path, tmp_path: Path) -> None:
    """Of peers and their rights, which are kept in files."""
    befriend(home, load_or_create(tmp_path / "ben"), "ben-ws")
    for line in (["peers"], ["rights", "ben-ws", "--slots", "2"], ["forget", "ben-ws"], ["peers"]):
        done = here(*line, "--home", home, "--json")
        assert done.returncode == 0
        assert printed(line[0], done.stdout) == []


@pytest.mark.parametrize(
    "line",
    [
        "keys add ci --slots 2", "keys list", "keys revoke ci", "config show", "config check",
        "config check none.toml", "config path",
    ],
)  # fmt: skip
def test_keys_and_settings_are_published_too(home: Path, line: str) -> None:
    """With and without a key, and of a file that is not there."""
    if "revoke" in line:
        here("keys", "add", "ci", "--home", home)
    words = line.split()
    done = here(*words, "--home", home, "--json")
    assert printed(" ".join(words[:2]), done.stdout) == []


def test_taking_over_and_the_service_are_published_too(home: Path, tmp_path: Path) -> None:
    """What is planned, what is done, and that nothing is there: on machines that are none of ours."""
    with StandInMachine(tmp_path / "box") as machine:
        machine.start()
        (home / "config.toml").write_text(machine.config())
        done = here("takeover", "--dry-run", "--json", "--home", home, **machine.environment())
        assert printed("takeover", done.stdout) == []
        done = here("release", "--yes", "--json", "--home", home, **machine.environment())
        assert printed("release", done.stdout) == []


@pytest.mark.skipif(sys.platform != "linux", reason="asks systemd's way of being a service")
def test_a_service_is_published_too(home: Path, tmp_path: Path) -> None:
    """Planned, installed but not running, and not there; of a systemctl that knows of no unit."""
    (tmp_path / "systemctl").write_text("#!/bin/sh\necho Version=252\n")
    (tmp_path / "systemctl").chmod(0o755)
    alone = {"HOME": str(tmp_path), "PATH": str(tmp_path), "XDG_CONFIG_HOME": "", "SUDO_USER": ""}
    unit = tmp_path / ".config" / "systemd" / "user" / "pairproxy.service"
    for words in ("status", "install --dry-run", "status", "uninstall --dry-run"):
        done = here("service", *words.split(), "--json", "--home", home, **alone)
        assert printed(f"service {words.split()[0]}", done.stdout) == [], done.stderr
        unit.parent.mkdir(parents=True, exist_ok=True)
        unit.write_text(f"# {MARK}\n# Home: {home}\n")


@pytest.mark.parametrize("path", [one.path for one in ENDPOINTS if one.media == JSON and not one.is_change])
def test_what_the_daemon_serves_is_what_it_published(live: list[Node], path: str) -> None:
    """Each path of the document answers with what stands there."""
    (operation,) = DOCUMENT["paths"][path].values()
    url = f"http://127.0.0.1:{live[0].file.admin_port}{path.replace('{id}', 'last')}"
    with urllib.request.urlopen(url, timeout=30) as reply:
        kind, body = reply.headers["Content-Type"].partition(";")[0], json.load(reply)
    assert kind in operation["responses"]["200"]["content"]
    assert wrong(operation["responses"]["200"]["content"][kind]["schema"], body) == []
    if path == "/openapi.json":
        assert body == DOCUMENT


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/runs?since=yesterday", 400),
        ("GET", "/report?run=never", 404),
        ("GET", "/requests/never", 404),
        ("POST", "/trust", 403),
        ("POST", "/settings", 403),
    ],
)
def test_what_is_refused_is_published_too(live: list[Node], method: str, path: str, status: int) -> None:
    """With its status, and a sentence in the form that is written there."""
    url = f"http://127.0.0.1:{live[0].file.admin_port}{path}"
    request = urllib.request.Request(url, method=method, data=b"" if method == "POST" else None)
    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.urlopen(request, timeout=30)  # noqa: S310
    known = path.partition("?")[0].replace("never", "{id}")
    answer = DOCUMENT["paths"][known][method.lower()]["responses"][str(told.value.code)]
    assert told.value.code == status
    assert wrong(answer["content"]["application/json"]["schema"], json.load(told.value)) == []


def test_every_path_of_the_port_is_published(live: list[Node]) -> None:
    """The port names its paths to who asks for another one; the files of the page are the page."""
    url = f"http://127.0.0.1:{live[0].file.admin_port}/nothing-here"
    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.urlopen(url, timeout=30)
    answer = json.load(told.value)
    assert wrong({"$ref": "#/components/schemas/Error"}, answer) == []
    words = (
        answer["error"].removesuffix(" here.").replace(" and ", ", ").removeprefix("There is ").split(", ")
    )
    named = {word.replace("ID", "{id}") for word in words if not word.startswith("/page/")}
    assert named == {one.path for one in ENDPOINTS if not one.is_change}


def test_a_stream_of_events_holds_published_documents(live: list[Node]) -> None:
    """The first event is a whole status."""
    (path,) = [one.path for one in ENDPOINTS if one.media == STREAM]
    with urllib.request.urlopen(f"http://127.0.0.1:{live[0].file.admin_port}{path}", timeout=30) as reply:
        for line in reply:
            if line.startswith(b"data:"):
                break
    assert wrong({"$ref": "#/components/schemas/Status"}, json.loads(line.removeprefix(b"data:"))) == []


@pytest.mark.slow
def test_what_a_bench_prints_is_published() -> None:
    """A small one."""
    small = ("--requests", "3", "--rounds", "1", "--policies", "fastest-finish", "--fast-forward", "50")
    done = pairproxy("bench", *small, "--json")
    assert done.returncode == 0, done.stderr
    assert printed("bench", done.stdout) == []


@pytest.mark.slow
def test_what_a_bench_of_this_cluster_prints_is_published(live: list[Node]) -> None:
    """Asked of the daemon that runs."""
    done = pairproxy(
        "bench", "--here", "--yes", "--requests", "2", "--rounds", "1", "--home", live[0].home, "--json"
    )
    assert done.returncode == 0, done.stderr
    assert printed("bench", done.stdout) == []


@pytest.mark.slow
def test_what_a_demo_prints_is_published() -> None:
    """A whole one, as a new user starts it."""
    done = pairproxy("demo", "--engine", "paced", "--requests", "3", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert printed("demo", done.stdout) == []

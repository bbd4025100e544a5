"""A daemon with [clients]: its port opens with the first key, closes with the last; nothing tells a key."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pairproxy.api.client import DAEMON_FILE, read_daemon_file
from pairproxy.cli.demo.cluster import node_environment, up_command
from pairproxy.config import ClientSettings, Settings
from pairproxy.core.errors import ConfigError
from pairproxy.core.models import NodeId
from pairproxy.key_clients import KeyClients
from pairproxy.security.client_keys import ClientKeys
from pairproxy.service.supervised import Supervisor
from tests.support import supervising
from tests.support.command import here
from tests.support.daemons import Daemons, Node, settings, until
from tests.support.keyed import trusting
from tests.support.telling import told_by


def made(node: Node, *more: str) -> str:
    """A new key, by the command."""
    done = here("keys", "add", *more, "--home", node.home)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def asked(
    node: "Node | KeptAlive", key: str, path: str = "/v1/models", body: Any = None
) -> tuple[int, bytes]:
    """What the key port answers to a client that was given the certificate."""
    port = node.file.key_port
    assert port is not None
    connection = http.client.HTTPSConnection("localhost", port, timeout=20, context=trusting(node.home))
    try:
        sent = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, sent, {"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def with_clients(**more: Any) -> str:
    """A config.toml of a daemon that has such a port."""
    return settings(clients={"listen": "127.0.0.1:0"} | more)


def test_the_port_lives_as_long_as_there_is_a_key(tmp_path: Path) -> None:
    """Closed, and said; open with the first key at once; closed with the last; open in the next life."""
    with Daemons(tmp_path) as daemons:
        daemons.home("anna", with_clients(names=["box.example.org"]))
        (anna,) = daemons.start("anna")
        assert anna.file.key_port is None
        until(lambda: "the port stays closed" in anna.log, "the log says that there is no key")
        key = made(anna, "ci")
        status, body = asked(anna, key)
        assert (status, json.loads(body)["data"][0]["id"]) == (200, "paced:1b")
        port = anna.file.key_port
        done = here("keys", "revoke", "ci", "--home", anna.home)
        assert done.stdout == "Revoked ci. Who shows it is cut off.\n"
        assert anna.file.key_port is None
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port or 0), 5).close()
        key = made(anna, "web")
        assert anna.stop() == 0
        (again,) = daemons.start("anna")
        assert asked(again, key)[0] == 200
        assert "clients with a key on 127.0.0.1:" in again.log


NODE = """
const one = process.env;
const got = await fetch(one.WHERE + "/v1/models", {headers: {"x-api-key": one.KEY}});
console.log((await got.json()).data[0].id);
"""


@pytest.mark.slow
def test_programs_as_people_have_them_get_in_by_the_file_and_the_key(tmp_path: Path) -> None:
    """The official Python clients, curl and node, told by the variables that docs/containers.md names."""
    with Daemons(tmp_path) as daemons:
        daemons.home("anna", with_clients())
        (anna,) = daemons.start("anna")
        key = made(anna, "ci")
        pem = tmp_path / "pairproxy.pem"
        pem.write_text(here("keys", "certificate", "--home", anna.home).stdout)
        where = f"https://localhost:{anna.file.key_port}"
        python = (
            "import ollama, openai\n"
            f"client = openai.OpenAI(base_url='{where}/v1', api_key='{key}')\n"
            "print(client.models.list().data[0].id)\n"
            f"client = ollama.Client('{where}', headers={{'Authorization': 'Bearer {key}'}})\n"
            "asked = [{'role': 'user', 'content': 'hi'}]\n"
            "assert client.chat('paced:1b', messages=asked, options={'num_predict': 2}).message.content\n"
        )
        bearer = f"Authorization: Bearer {key}"
        lines: list[tuple[list[str], dict[str, str]]] = [
            ([sys.executable, "-c", python], {"SSL_CERT_FILE": str(pem)}),
            (["curl", "-sS", "--cacert", str(pem), "-H", bearer, f"{where}/v1/models"], {}),
            (
                ["node", "--input-type=module", "-e", NODE],
                {"NODE_EXTRA_CA_CERTS": str(pem), "WHERE": where, "KEY": key},
            ),
        ]
        missing = [line[0] for line, _ in lines if shutil.which(line[0]) is None]
        for line, more in lines:
            if line[0] not in missing:
                done = subprocess.run(
                    line, capture_output=True, text=True, timeout=60, env={**os.environ, **more}
                )
                assert "paced:1b" in done.stdout, done.stderr
                if more:
                    env = os.environ | {"WHERE": where, "KEY": key}
                    again = subprocess.run(line, capture_output=True, text=True, timeout=60, env=env)
                    assert again.returncode != 0, "it must not believe a certificate that it was not given"
        if missing:
            pytest.skip(f"there is no {' and no '.join(missing)} here")


def test_no_word_of_a_key_is_kept_or_told(tmp_path: Path) -> None:
    """Right or wrong, wherever it was shown: not in the home, the log, the faces, the history."""
    with Daemons(tmp_path) as daemons:
        daemons.home("anna", with_clients() + '[log]\nlevel = "debug"\n')
        (anna,) = daemons.start("anna")
        key = made(anna, "ci")
        wrong = "ppk_canary" + key[10:]
        chat = {"model": "paced:1b", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
        assert asked(anna, key, "/v1/chat/completions", chat)[0] == 200
        assert asked(anna, wrong, "/v1/chat/completions", chat)[0] == 401
        assert asked(anna, key, f"/v1/models/{key}")[0] == 404
        until(lambda: anna.report().records, "the request is recorded")
        told = dict(told_by(anna))
        anna.stop()
        with contextlib.closing(sqlite3.connect(anna.home / "history.db")) as history:
            assert history.execute("SELECT DISTINCT client FROM requests").fetchall() == [("key:ci",)]
        places = {"log": anna.log.encode()} | {path: text.encode() for path, text in told.items()}
        places |= {file.name: file.read_bytes() for file in anna.home.rglob("*") if file.is_file()}
        assert {name for name, text in places.items() if key.encode() in text or b"canary" in text} == set()


@pytest.mark.slow
def test_a_key_is_told_even_if_its_port_cannot_be_had(tmp_path: Path) -> None:
    """It is kept by then, and nobody could read it again; the sentence says who has the port."""
    with Daemons(tmp_path) as daemons, socket.create_server(("127.0.0.1", 0)) as held:
        daemons.home("anna", with_clients(listen=f"127.0.0.1:{held.getsockname()[1]}"))
        (anna,) = daemons.start("anna")
        done = here("keys", "add", "ci", "--home", anna.home)
        assert (done.returncode, done.stdout[:4]) == (1, "ppk_")
        assert "is taken by" in done.stderr
        assert "clients.listen" in done.stderr
        anna.stop()
        failed = daemons.launch("anna")
        failed.is_expected_to_fail = True
        assert failed.wait() == 1
        assert "clients.listen" in failed.log


@pytest.mark.slow
def test_without_clients_listen_a_key_opens_nothing_and_says_so(tmp_path: Path) -> None:
    """Off by default."""
    with Daemons(tmp_path) as daemons:
        daemons.home("anna", settings())
        (anna,) = daemons.start("anna")
        done = here("keys", "add", "ci", "--home", anna.home)
        assert (done.returncode, done.stdout[:4]) == (0, "ppk_")
        assert "set clients.listen in config.toml" in " ".join(done.stderr.split())
        assert anna.file.key_port is None


@pytest.mark.slow
def test_a_restart_refuses_nobody(tmp_path: Path) -> None:
    """Where a service manager keeps the sockets, who calls between two lives waits for the second."""
    with Daemons(tmp_path) as daemons, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        home = daemons.home("anna", with_clients(listen=f"127.0.0.1:{port}"))
        key, _ = ClientKeys(home).add("ci")
        command = [word for word in up_command(home) if word != "--stop-on-eof"]  # its input has ended
        with supervising.Supervisor(command, node_environment()) as manager:
            manager.until_ready()
            node = KeptAlive(home)
            assert asked(node, key)[0] == 200
            manager.kill()
            assert asked(node, key)[0] == 200
            manager.until_ready()
            assert [name.startswith("keys-") for name in manager.kept].count(True) == 2
            assert here("keys", "revoke", "ci", "--home", home).returncode == 0
            until(lambda: not [name for name in manager.kept if name.startswith("keys-")], "it keeps none")
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), 5).close()


class KeptAlive:
    """A daemon that somebody else starts: where it was last."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.file = read_daemon_file(home)


@pytest.mark.slow
def test_an_address_may_come_later(tmp_path: Path) -> None:
    """Docker's is there while Docker runs: the daemon starts without it, says so, and opens when it comes."""
    with Daemons(tmp_path) as daemons:
        home = daemons.home("anna", with_clients(listen="192.0.2.77:0"))
        key, _ = ClientKeys(home).add("ci")
        (anna,) = daemons.start("anna")
        until(lambda: "cannot reach this machine yet: Cannot listen on 192.0.2.77" in anna.log, "it is said")
        assert anna.file.key_port is None
        done = here("keys", "add", "web", "--home", home)
        assert (done.returncode, done.stdout[:4]) == (0, "ppk_")
        assert "Cannot listen on 192.0.2.77" in done.stderr
        with Address("192.0.2.77"):
            until(lambda: anna.file.key_port, "the port opens")
            until(lambda: "answered on 192.0.2.77" in anna.log, "and that is said")
        assert key


class Address:
    """An address of loopback's interface, while in the block."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None:
        line = ["ip", "addr", "add", f"{self._address}/32", "dev", "lo"]
        if not shutil.which("ip") or subprocess.run(line, capture_output=True, timeout=10).returncode:
            pytest.skip("it takes root and Linux's program ip to give this machine another address")

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "addr", "del", f"{self._address}/32", "dev", "lo"], timeout=10, check=True)


def test_a_damaged_file_of_keys_refuses_the_start(tmp_path: Path) -> None:
    """Nobody is let in by guesswork, and nothing is thrown away."""
    with Daemons(tmp_path) as daemons:
        home = daemons.home("anna", with_clients())
        (home / "client_keys.json").write_text("{")
        (home / "client_keys.json").chmod(0o600)
        node = daemons.launch("anna")
        node.is_expected_to_fail = True
        assert node.wait() == 1
        assert "client_keys.json is damaged" in node.log
        assert not (home / DAEMON_FILE).exists()


def test_a_name_that_is_none_refuses_the_start(tmp_path: Path) -> None:
    """With the setting."""
    with pytest.raises(ConfigError, match=r"clients\.names"):
        KeyClients(
            Settings(clients=ClientSettings("127.0.0.1:0", ("a b",))), tmp_path, NodeId("n"), Supervisor()
        )

"""Who has a network of its own, as containers have, and no pairproxy, uses the port for clients with keys."""

import json
from pathlib import Path

import pytest

from tests.lan.conftest import Network
from tests.support.daemons import until
from tests.support.lan_host import Host
from tests.support.lan_nodes import LanCommand, lan_settings

PORT = 11636
CHAT = json.dumps({"model": "paced:1b", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3})


def curl(host: Host, pem: Path, address: str, key: str, *more: str) -> str:
    """What a program on another machine gets; its errors are part of it."""
    line = f'curl -sS --max-time 10 --cacert {pem} -H "Authorization: Bearer {key}" "$@" 2>&1; true'
    return host.run("sh", "-c", line, "sh", *more, f"https://{address}:{PORT}/v1/chat/completions")


@pytest.mark.slow
def test_a_machine_without_pairproxy_needs_a_file_and_a_key(network: Network, tmp_path: Path) -> None:
    """By the machine's address, also when that is another a minute later; without them it gets nothing."""
    daemons = network("anna", "ben")
    daemons.home("anna", lan_settings(clients={"listen": f"0.0.0.0:{PORT}"}))
    (anna,) = daemons.begin("anna")
    ben = daemons.lan["ben"]
    made = LanCommand(anna, tmp_path / "add", "keys", "add", "box")
    key = made.until(r"(ppk_[a-z2-7]{36})")
    assert made.ended() == 0, made.said
    told = LanCommand(anna, tmp_path / "certificate", "keys", "certificate")
    assert told.ended() == 0, told.said
    pem = tmp_path / "pairproxy.pem"
    pem.write_text(told.said)
    reply = json.loads(curl(ben, pem, anna.here.address, key, "-d", CHAT))
    assert reply["choices"][0]["message"]["content"]
    assert "needs a key" in curl(ben, pem, anna.here.address, "", "-d", CHAT)
    assert "not known here" in curl(ben, pem, anna.here.address, f"sk-{key}", "-d", CHAT)
    none = tmp_path / "none.pem"
    none.write_text(pem.read_text()[:0])
    assert "certificate" in curl(ben, none, anna.here.address, key, "-d", CHAT)
    address = "10.77.0.77"
    anna.here.move_to(address)
    until(lambda: "choices" in curl(ben, pem, address, key, "-d", CHAT), "the new address is certified", 60.0)
    gone = LanCommand(anna, tmp_path / "revoke", "keys", "revoke", "box")
    assert gone.ended() == 0, gone.said
    assert "onnect" in curl(ben, pem, address, key, "-d", CHAT)

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pairproxy.doctor.examining import scene_of
from pairproxy.doctor.facts import Firewall, Unknown
from pairproxy.doctor.probes.firewall import firewall, is_dropped
from pairproxy.doctor.probes.scene import Scene
from pairproxy.takeover.running import Runner

TCP = ("tcp", 11634)


def chain(policy: str = "accept", hook: str = "input") -> dict[str, Any]:
    """A chain of the way in."""
    return {"chain": {"family": "inet", "table": "f", "name": "in", "hook": hook, "policy": policy}}


def rule(*expressions: Any) -> dict[str, Any]:
    """A rule of that chain."""
    return {"rule": {"family": "inet", "table": "f", "chain": "in", "expr": list(expressions)}}


def dport(right: Any, protocol: str = "tcp") -> dict[str, Any]:
    """It names a port."""
    left = {"payload": {"protocol": protocol, "field": "dport"}}
    return {"match": {"op": "==", "left": left, "right": right}}


DROP, ACCEPT, REJECT = {"drop": None}, {"accept": None}, {"reject": {"type": "tcp reset"}}
CT = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}
LO = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "lo"}}
ETH = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}}
L4 = {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": {"set": ["tcp", "udp"]}}}


@pytest.mark.parametrize(
    ("entries", "is_shut"),
    [
        ([], False),
        ([chain()], False),
        ([chain("drop")], True),
        ([chain("drop"), rule(CT, ACCEPT), rule(LO, ACCEPT)], True),
        ([chain("drop"), rule(dport(11634), ACCEPT)], False),
        ([chain("drop"), rule(dport({"set": [22, 11634]}), ACCEPT)], False),
        ([chain("drop"), rule(dport({"range": [11000, 12000]}), ACCEPT)], False),
        ([chain("drop"), rule(dport({"set": [22, {"range": [1, 9]}]}), ACCEPT)], True),
        ([chain("drop"), rule(L4, dport(11634, "th"), ACCEPT)], False),
        ([chain("drop"), rule({"jump": {"target": "more"}})], False),
        ([chain(), rule(dport(11634), DROP)], True),
        ([chain(), rule(dport(11634, "udp"), DROP)], False),
        ([chain(), rule(dport(22), DROP)], False),
        ([chain(), rule(ETH, dport(11634), REJECT)], True),
        ([chain(), rule(dport(11634), ACCEPT), rule(DROP)], False),
        ([chain(), rule({"counter": {}}, DROP)], True),
        ([chain("drop", "forward")], False),
        ([{"metainfo": {}}, "odd", {"rule": {"expr": "odd"}}, {"chain": []}], False),
    ],
)
def test_what_stops_a_new_connection_from_anywhere(entries: list[Any], is_shut: bool) -> None:
    """A rule that names the port, or a policy that no rule lifts; what is about others says nothing."""
    assert is_dropped(entries, TCP) is is_shut


def scene(directory: Path, *, as_root: bool, **programs: str) -> Scene:
    """A system with these programs: shell scripts on a PATH of their own."""
    for name, text in programs.items():
        file = directory / name.replace("_", "-")
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
    environment = {"PATH": str(directory), "HOME": str(directory)}
    made = scene_of(directory, environment)
    return Scene(made.home, made.person, environment, Runner(environment, as_root=as_root))


linux = pytest.mark.skipif(sys.platform != "linux", reason="the packet filters of Linux")


@linux
def test_only_root_is_shown_the_rules(tmp_path: Path) -> None:
    """For others it says how they would be seen."""
    told = firewall(scene(tmp_path, as_root=False, nft="exit 1"), 11634, is_discovering=True)
    assert isinstance(told, Unknown)
    assert "sudo pairproxy doctor" in told.why
    told = firewall(scene(tmp_path, as_root=True, nft="echo no; exit 1"), 11634, is_discovering=True)
    assert isinstance(told, Unknown)


@linux
def test_nft_ufw_and_firewalld_are_read(tmp_path: Path) -> None:
    """The one that speaks for a person comes first; mDNS has a word or a rule of its own there."""
    rules = json.dumps({"nftables": [chain("drop"), rule(dport(5353, "udp"), ACCEPT)]})
    one = tmp_path / "nft"
    one.mkdir()
    told = firewall(scene(one, as_root=True, nft=f"echo '{rules}'"), 11634, is_discovering=True)
    assert told == Firewall("nftables", (TCP,))
    two = tmp_path / "ufw"
    two.mkdir()
    text = "Status: active\nDefault: deny (incoming), allow (outgoing)\n22/tcp   ALLOW IN   Anywhere"
    told = firewall(scene(two, as_root=True, ufw=f"echo '{text}'"), 11634, is_discovering=True)
    assert told == Firewall("ufw", (TCP,))
    text += "\n11634/tcp   ALLOW IN   Anywhere"
    told = firewall(scene(two, as_root=True, ufw=f"echo '{text}'"), 11634, is_discovering=True)
    assert told == Firewall("ufw", ())
    three = tmp_path / "firewalld"
    three.mkdir()
    script = '[ "$1" = --state ] && exit 0; echo "  services: ssh mdns"; echo "  ports: 11634/udp"'
    told = firewall(scene(three, as_root=False, firewall_cmd=script), 11634, is_discovering=True)
    assert told == Firewall("firewalld", (TCP,))

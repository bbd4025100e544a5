"""What the packet filter of this machine keeps shut: nftables, ufw, firewalld, those of macOS and Windows.

Rules are read, never tried; only what plainly stops a port is told. Whether a peer really gets through, the
peer says best (checks.peers).
"""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from pairproxy.doctor.facts import Firewall, Unknown
from pairproxy.doctor.probes.scene import COMMAND_S, Scene
from pairproxy.takeover.running import CommandFailed

MDNS = ("udp", 5353)
MAC_FIREWALL = "/usr/libexec/ApplicationFirewall/socketfilterfw"
MOST_RULES = 20_000  # of nftables; a machine of a person has some hundred

Wanted = tuple[str, int]


def firewall(scene: Scene, peer_port: int | None, *, is_discovering: bool) -> Firewall | Unknown:
    """Whether peers can come in by TCP, and mDNS by UDP, as far as the rules may be read."""
    wanted: list[Wanted] = [("tcp", peer_port)] if peer_port else []
    wanted += [MDNS] if is_discovering else []
    try:
        if sys.platform == "win32":
            return _windows(scene, wanted)
        if sys.platform == "darwin":
            return _mac(scene, wanted)
        return _linux(scene, wanted)
    except CommandFailed as error:
        return Unknown(error.sentence.rstrip("."))


def _linux(scene: Scene, wanted: list[Wanted]) -> Firewall | Unknown:
    """Those that speak for a person first; else the kernel's own rules."""
    if scene.runner.which("firewall-cmd"):
        state = scene.runner.run(["firewall-cmd", "--state"], timeout_s=COMMAND_S)
        if state.is_ok:
            listed = scene.runner.run(["firewall-cmd", "--list-all"], timeout_s=COMMAND_S)
            if listed.is_ok:
                return Firewall("firewalld", tuple(one for one in wanted if not _is_listed(one, listed.out)))
    if not scene.runner.is_root:
        return Unknown("the rules of the packet filter are shown to root only (`sudo pairproxy doctor`)")
    if scene.runner.which("ufw"):
        state = scene.runner.run(["ufw", "status", "verbose"], timeout_s=COMMAND_S)
        if state.is_ok and "Status: active" in state.out and "deny (incoming)" in state.out:
            return Firewall("ufw", tuple(one for one in wanted if not _is_allowed(one, state.out)))
    if not scene.runner.which("nft"):
        return Unknown("the program `nft` is not there")
    told = scene.runner.run(["nft", "-j", "list", "ruleset"], timeout_s=COMMAND_S)
    if not told.is_ok:
        return Unknown(f"nft does not tell its rules ({told.why})")
    with suppress(ValueError, RecursionError):
        entries = json.loads(told.out or '{"nftables": []}')["nftables"][:MOST_RULES]
        return Firewall("nftables", tuple(one for one in wanted if is_dropped(entries, one)))
    return Unknown("the rules of nft cannot be read")


def _is_listed(wanted: Wanted, text: str) -> bool:
    kind, port = wanted
    is_mdns = wanted == MDNS and "mdns" in text.split()
    return is_mdns or f"{port}/{kind}" in text.split() or "target: ACCEPT" in text


def _is_allowed(wanted: Wanted, text: str) -> bool:
    """By ufw; its own rules before a person's let mDNS in."""
    kind, port = wanted
    rules = (line.split() for line in text.splitlines() if "ALLOW" in line)
    return wanted == MDNS or any(words[0] in (str(port), f"{port}/{kind}", "Anywhere") for words in rules)


def is_dropped(entries: Iterable[Any], wanted: Wanted) -> bool:
    """Whether a chain of the way in stops it: by a rule that names the port, or by its policy and no rule.

    A rule is understood if it asks for nothing but the protocol, the port and the card.
    """
    chains, rules = {}, list[Any]()
    for entry in entries:
        if isinstance(entry, dict) and isinstance(chain := entry.get("chain"), dict):
            if chain.get("hook") == "input":
                chains[_place(chain, "name")] = str(chain.get("policy", "accept"))
        elif isinstance(entry, dict) and isinstance(rule := entry.get("rule"), dict):
            rules.append(rule)
    for place, policy in chains.items():
        verdicts = [
            verdict for rule in rules if _place(rule, "chain") == place for verdict in _verdict(rule, wanted)
        ]
        if (verdicts[0] if verdicts else policy) in ("drop", "reject"):
            return True
    return False


def _place(one: dict[str, Any], key: str) -> tuple[str, str, str]:
    return str(one.get("family")), str(one.get("table")), str(one.get(key))


def _verdict(rule: dict[str, Any], wanted: Wanted) -> Iterator[str]:
    """What a rule says of a new connection to that port from anywhere; nothing if it is about others.

    A jump may let it in: a chain that is not followed counts as one that does.
    """
    expressions = rule.get("expr")
    if not isinstance(expressions, list):
        return
    matches = [one["match"] for one in expressions if isinstance(one, dict) and "match" in one]
    found = [_fits(match, wanted) for match in matches]
    if not all(found):
        return
    for one in expressions:
        if isinstance(one, dict):
            yield from (word for word in ("drop", "reject", "accept") if word in one)
            if "jump" in one or "goto" in one:
                yield "accept"


def _fits(match: Any, wanted: Wanted) -> bool:
    kind, port = wanted
    left, right = match.get("left"), match.get("right")
    payload = left.get("payload") if isinstance(left, dict) else None
    if isinstance(payload, dict) and payload.get("field") == "dport":
        return payload.get("protocol") in (kind, "th") and match.get("op") == "==" and _holds(right, port)
    if isinstance(left, dict) and (meta := left.get("meta")):
        if meta.get("key") == "l4proto":
            return match.get("op") == "==" and (right == kind or _holds(right, kind))
        return bool(meta.get("key") == "iifname" and right != "lo")
    return False  # of a state, a sender or the like: not about everybody


def _holds(right: Any, wanted: int | str) -> bool:
    """Whether a value, a range or a set of both has it."""
    if isinstance(right, dict) and isinstance(listed := right.get("set"), list):
        return any(_holds(one, wanted) for one in listed)
    if isinstance(right, dict) and isinstance(span := right.get("range"), list) and isinstance(wanted, int):
        return len(span) == 2 and all(isinstance(end, int) for end in span) and span[0] <= wanted <= span[1]
    return bool(right == wanted)


def _mac(scene: Scene, wanted: list[Wanted]) -> Firewall | Unknown:
    """Its firewall goes by programs, not ports: only "block all" is told."""
    told = scene.runner.run([MAC_FIREWALL, "--getblockall"], timeout_s=COMMAND_S)
    is_shut = told.is_ok and ("enabled" in told.out.lower() or "block all non" in told.out.lower())
    return Firewall("the macOS firewall", tuple(wanted) if is_shut else ())


def _windows(scene: Scene, wanted: list[Wanted]) -> Firewall | Unknown:
    """Only a profile that blocks everything, rules or not; else it goes by programs."""
    told = scene.runner.run(
        ["netsh", "advfirewall", "show", "currentprofile", "firewallpolicy"], timeout_s=COMMAND_S
    )
    if not told.is_ok:
        return Unknown("netsh does not tell the profile")
    is_shut = "blockinboundalways" in told.out.lower()
    return Firewall("Windows Defender Firewall", tuple(wanted) if is_shut else ())

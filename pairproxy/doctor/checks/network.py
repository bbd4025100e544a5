"""The network: multicast on each interface, and what the packet filter keeps shut."""

import ipaddress
from collections.abc import Iterator

from pairproxy.api.diagnosis import Finding
from pairproxy.doctor.facts import Card, Facts, Firewall, Unknown
from pairproxy.peers.addresses import parse_address

PERMISSION = "macOS does not let"


def carries_multicast(facts: Facts) -> Iterator[Finding]:
    """Interfaces on which peers are, and do not answer mDNS: the next one is not found there either."""
    if isinstance(facts.cards, Unknown) or isinstance(facts.status, Unknown) or not _discovers(facts):
        return
    if _is_shut(facts, "udp"):
        return  # the packet filter is why, and another check says so
    for card in facts.cards:
        if card.problem:
            yield _cannot_send(card)
            continue
        silent = [name for name, host in _peers_on(facts, card).items() if host not in card.heard]
        if silent:
            yield Finding(
                "multicast-deaf",
                "warning",
                f"{' and '.join(silent)} answers on {card.name} ({card.address}), but not to multicast: mDNS "
                "does not pass there (a VPN, a guest network, an access point that keeps it back). Peers are "
                "found by the addresses that are known.",
                "Name the peers' addresses in peers.static of config.toml, on both machines; or let the "
                "network carry multicast (UDP port 5353, group 224.0.0.251).",
                card.name,
            )


def _cannot_send(card: Card) -> Finding:
    if card.problem.startswith(PERMISSION):
        return Finding(
            "local-network-refused",
            "problem",
            f"{card.problem}: peers are neither found nor reached on {card.name}.",
            "System Settings, Privacy & Security, Local Network: switch it on for your terminal and for "
            "python, then restart pairproxy.",
            card.name,
        )
    return Finding(
        "multicast-refused",
        "warning",
        f"Nothing can be sent by multicast on {card.name} ({card.problem}): peers are not found there.",
        "Name their addresses in peers.static of config.toml.",
        card.name,
    )


def _peers_on(facts: Facts, card: Card) -> dict[str, str]:
    """Peers that are up at an IPv4 address of the card's network: name -> host."""
    found = {}
    if isinstance(facts.status, Unknown):
        return {}
    for node in facts.status.nodes:
        address = parse_address(node.address, "") if node.address and node.is_up else None
        if address is not None and _is_in(address.host, card.network) and address.host != card.address:
            found[node.name] = address.host
    return found


def _is_in(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network)
    except ValueError:
        return False


def is_looked_for(facts: Facts) -> Iterator[Finding]:
    """What the daemon says of discovery. That nobody is heard is no fault where peers are there."""
    if isinstance(facts.status, Unknown) or facts.status.discovery_problem is None:
        return
    others = [node for node in facts.status.nodes if not node.is_self]
    if not any(node.is_up for node in others) and others:
        yield Finding(
            "discovery-fails",
            "warning",
            facts.status.discovery_problem,
            "Name the peers' addresses in peers.static of config.toml, or see that UDP port 5353 is open.",
        )


def lets_peers_in(facts: Facts) -> Iterator[Finding]:
    """Ports that the packet filter keeps shut."""
    if not isinstance(facts.firewall, Firewall):
        return
    for kind, port in facts.firewall.drops:
        what = (
            "paired machines cannot reach this one: they send it no requests"
            if kind == "tcp"
            else "mDNS is not heard: peers are found by known addresses only"
        )
        yield Finding(
            "firewall-shut",
            "problem" if kind == "tcp" else "warning",
            f"{facts.firewall.name} keeps {kind.upper()} port {port} shut, so {what}.",
            _open(facts.firewall.name, kind, port),
            f"{kind} {port}",
        )


def _open(name: str, kind: str, port: int) -> str:
    if name == "ufw":
        return f"`sudo ufw allow {port}/{kind}`"
    if name == "firewalld":
        return f"`sudo firewall-cmd --permanent --add-port={port}/{kind} && sudo firewall-cmd --reload`"
    if name == "nftables":
        return (
            f"Let it in before the rule that stops it, for example `sudo nft insert rule inet filter input "
            f"{kind} dport {port} accept` (`sudo nft list ruleset` shows your tables)."
        )
    return (
        f'Switch off "block all incoming connections" in {name}, or allow {kind.upper()} port {port} there.'
    )


def _is_shut(facts: Facts, kind: str) -> bool:
    return isinstance(facts.firewall, Firewall) and any(one == kind for one, _ in facts.firewall.drops)


def _discovers(facts: Facts) -> bool:
    return not isinstance(facts.settings, Unknown) and facts.settings.peers.discovery

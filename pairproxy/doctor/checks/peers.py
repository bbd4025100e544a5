"""Peers: reached from here, reached by them, of one mind about the time and the version."""

from collections.abc import Iterator
from statistics import median_high, median_low

from pairproxy import __version__
from pairproxy.api.diagnosis import Finding
from pairproxy.api.schema import NodeStatus
from pairproxy.doctor.facts import Facts, Firewall, Unknown

SETTLED_S = (
    10.0  # a daemon's age before who is not heard is missed: a lost announcement is asked for after 5 s
)
CLOCK_S = 5.0  # apart; HTTP tells seconds, and what crosses a LAN takes milliseconds
PROTOCOL_PORT = 11634
_SET_CLOCK = {
    "linux": "`sudo timedatectl set-ntp true`",
    "darwin": "`sudo sntp -sS time.apple.com`",
    "win32": "`w32tm /resync` in a terminal of the administrator",
}


def can_be_read(facts: Facts) -> Iterator[Finding]:
    """Files of peers that the daemon would refuse."""
    if facts.peers_problem and not facts.files:  # open files are told by another check
        yield Finding("peers-unreadable", "problem", facts.peers_problem, "", "peers")


def are_reached(facts: Facts) -> Iterator[Finding]:
    """Peers that refuse us or cannot be reached. One that is just off is no fault."""
    for node in _others(facts):
        if node.is_up:
            continue
        problem = (node.problem or "it was not heard yet").rstrip(".")
        if "pair the two again" in problem or "update of pairproxy" in problem or "another key" in problem:
            yield Finding(
                "peer-refuses",
                "problem",
                f"{node.name} is there and cannot be used: {problem}.",
                "`pairproxy pair` here and `pairproxy join CODE` there pair the two anew; `pairproxy peers` "
                "on both says who may do what.",
                node.name,
            )
        elif _is_old_enough(facts):
            yield Finding(
                "peer-away",
                "note",
                f"{node.name} is not heard: {problem}. If it is switched on, something between the two is "
                "in the way.",
                f"See that pairproxy runs there and that its port {PROTOCOL_PORT} is open (`pairproxy "
                "doctor` there); where the network carries no multicast, name its address in peers.static.",
                node.name,
            )


def reach_us(facts: Facts) -> Iterator[Finding]:
    """Peers that are heard here and do not listen here, though they may."""
    if isinstance(facts.peers, Unknown) or not _is_old_enough(facts):
        return
    if isinstance(facts.firewall, Firewall) and any(kind == "tcp" for kind, _ in facts.firewall.drops):
        return  # that is why, and another check says so
    may = {record.node for record in facts.peers if record.may_use_me}
    port = None if isinstance(facts.status, Unknown) else facts.status.peer_port
    for node in _others(facts):
        if node.is_up and node.hears_us is False and node.node in may:
            yield Finding(
                "peer-one-way",
                "problem",
                f"This machine reaches {node.name}, and {node.name} does not reach this machine: it sends no "
                f"requests here. As a rule a firewall keeps TCP port {port} of this machine shut.",
                f"Open TCP port {port} here ({_open(facts, port)}); or {node.name} was told not to use this "
                "machine (`pairproxy rights` there).",
                node.name,
            )


def _open(facts: Facts, port: int | None) -> str:
    if facts.machine.system == "win32":
        return (
            f"`netsh advfirewall firewall add rule name=pairproxy dir=in action=allow protocol=TCP "
            f"localport={port} profile=private`"
        )
    if facts.machine.system == "darwin":
        return "System Settings, Network, Firewall: allow incoming connections for python"
    return f"`sudo ufw allow {port}/tcp` or what your firewall has for it"


def agree_on_the_time(facts: Facts) -> Iterator[Finding]:
    """Clocks that differ; with several peers, whose it is can be told."""
    off = {node.name: node.clock_ahead_s for node in _others(facts) if node.is_up}
    known = {name: ahead_s for name, ahead_s in off.items() if ahead_s is not None}
    if not known:
        return
    own_s = _most(sorted(known.values()))
    if abs(own_s) > CLOCK_S:
        yield _clock(facts, "The clock of this machine", -own_s, "most peers", "")
        return
    for name, ahead_s in known.items():
        if abs(ahead_s) > CLOCK_S:
            yield _clock(facts, f"The clock of {name}", ahead_s, "this machine", name)


def _most(ahead_s: list[float]) -> float:
    """How far most of several clocks are ahead of this one; 0 where they are not of one mind."""
    low, high = median_low(ahead_s), median_high(ahead_s)
    is_of_one_mind = len(ahead_s) > 1 and (low > 0) == (high > 0)
    return min(low, high, key=abs) if is_of_one_mind else 0.0


def _clock(facts: Facts, whose: str, ahead_s: float, than: str, about: str) -> Finding:
    word = "ahead of" if ahead_s > 0 else "behind"
    command = _SET_CLOCK.get(facts.machine.system, _SET_CLOCK["linux"])
    return Finding(
        "clock-off",
        "warning",
        f"{whose} is {abs(ahead_s):.0f} s {word} that of {than}. Requests do not mind; times in logs and "
        "reports of the two do not fit together.",
        f"Set it by the network: {command}{' there' if about else ''}; if that one is right, set this one.",
        about,
    )


def are_of_one_version(facts: Facts) -> Iterator[Finding]:
    """Another pairproxy on a peer: it works, by the same protocol, and newer ones mend faults."""
    for node in _others(facts):
        if node.is_up and node.version and node.version != __version__:
            yield Finding(
                "versions-differ",
                "note",
                f"{node.name} runs pairproxy {node.version}, this machine {__version__}. They work together; "
                "what only one of them knows is not used.",
                "Update the older of the two: `uv tool upgrade pairproxy` or `pipx upgrade pairproxy`.",
                node.name,
            )


def _others(facts: Facts) -> tuple[NodeStatus, ...]:
    if isinstance(facts.status, Unknown):
        return ()
    return tuple(node for node in facts.status.nodes if not node.is_self)


def _is_old_enough(facts: Facts) -> bool:
    return not isinstance(facts.status, Unknown) and facts.status.uptime_s >= SETTLED_S

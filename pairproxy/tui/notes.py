"""What a person must know beside the picture: who is down and why, what differs, who is not paired."""

from collections.abc import Iterator

from pairproxy.api.schema import NodeStatus, Status
from pairproxy.tui.words import counted, lasting, plain

MOST_SEEN = 8  # of the nodes that are not paired, in a network of many
LATE_S = 1.0  # a heartbeat: peers begin to see that something is wrong here


def notes(status: Status) -> list[str]:
    """One sentence each, what hurts most first."""
    lines = [*_withheld(status), *_nodes_to_know_of(status.nodes)]
    if status.is_draining:
        lines.append("This node is draining: it takes no new work.")
    lines += [plain(port.why) for port in status.ports if port.why]
    if status.history_problem:
        lines.append(f"history: {plain(status.history_problem)}")
    lines += [
        f"models differ on {plain(node.name)}: {', '.join(map(plain, node.models_differ))} (same name, other "
        "content, so never mixed; pull it anew on one of the two, or map it with engines.aliases)"
        for node in status.nodes
        if node.models_differ
    ]
    if status.unpaired:
        lines.append(f"seen, not paired: {_strangers(status.unpaired)}")
    if status.loop_lag_s > LATE_S:
        lines.append(
            f"pairproxy was held up for {status.loop_lag_s:.1f} s within the last minute; "
            "its log says by what"
        )
    if status.discovery_problem:
        lines.append(f"discovery: {plain(status.discovery_problem)}")
    return lines


def _nodes_to_know_of(nodes: tuple[NodeStatus, ...]) -> list[str]:
    down = [
        f"{plain(node.name)} is down: {plain(node.problem)}"
        for node in nodes
        if node.problem and not (node.is_up or node.is_self)
    ]
    slower = [
        f"{plain(node.name)}: {plain(engine.engine)} is slower than usual, so it is given "
        f"{counted(engine.foreign, 'slot')} less until it is not; something else may use that machine"
        for node in nodes
        for engine in node.engines
        if engine.foreign
    ]
    return down + slower


def _withheld(status: Status) -> Iterator[str]:
    """Why peers get nothing here, and this node nothing of a peer."""
    offer = status.offer
    if offer.withheld:
        since_s = None if offer.since_unix is None else max(status.at_unix - offer.since_unix, 0.0)
        since = "" if since_s is None else f" for {lasting(since_s)} now"
        left = f" {counted(offer.guests, 'request')} of theirs still under way." if offer.guests else ""
        yield f"peers get no slot here{since}: {plain(offer.why)}{left}"
    for node in status.nodes:
        if node.withheld and node.is_up and not node.is_self:
            yield f"{plain(node.name)} offers nothing: {plain(node.withheld_why)}"


def _strangers(unpaired: dict[str, str]) -> str:
    seen = [
        plain(f"{short[:4]}-{short[4:]}" + (f" ({where})" if "update" in where else ""))  # else an address
        for short, where in sorted(unpaired.items())
    ]
    return ", ".join(seen[:MOST_SEEN]) + (
        f" and {len(seen) - MOST_SEEN} more" if len(seen) > MOST_SEEN else ""
    )

"""What limits a cluster at this moment, in one sentence that all faces show."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pairproxy.api.schema import NodeStatus, Status

MOST_NAMES = 2  # that a sentence of a line and a half has room for; more are counted


@dataclass(frozen=True, slots=True)
class _Offer:
    """An engine that answers: whose, how many slots it has and uses, the names of its models."""

    node: NodeStatus
    slots: int
    busy: int
    models: frozenset[str]


def what_limits(status: Status) -> str:
    """One sentence on what the requests known to this node are held up by now."""
    offers = _offers(status)
    slots, busy = sum(one.slots for one in offers), sum(one.busy for one in offers)
    if not offers:
        return "No engine answers, here or on a peer: start one, and it is found."
    if status.queue_length:
        return _waiting(status, offers, slots - busy)
    if not status.running:
        if status.current_run is not None:
            free = _counted(slots - busy, "slot")
            return f"Nothing of the run is asked now: its client or its tools are at work; {free} free."
        others = f", {busy} busy for others" if busy else ""
        return f"Nothing runs or waits here: {_counted(slots - busy, 'slot')} free{others}."
    if slots <= busy:
        return f"{_all(slots)} busy and nothing waits: all that came is being worked on."
    return _tail(status, offers, slots, busy)


def _offers(status: Status) -> list[_Offer]:
    """Of the engines that answer and have slots for this node."""
    return [
        _Offer(
            node,
            engine.slots,
            min(engine.in_flight, engine.slots),
            frozenset(replica.model for replica in engine.replicas),
        )
        for node in status.nodes
        for engine in node.engines
        if node.is_up and engine.is_up and engine.slots > 0 and (node.is_self or not node.withheld)
    ]


def _waiting(status: Status, offers: Sequence[_Offer], free: int) -> str:
    count = _counted(status.queue_length, "request")
    is_one = status.queue_length == 1
    waits = f"{count} {'waits' if is_one else 'wait'}"
    if not free:
        total = sum(one.slots for one in offers)
        return (
            f"{_all(total)} busy and {waits}: the slots are the limit; "
            "more of them, or a node more, would help."
        )
    where = _names(one.node.name for one in offers if one.busy < one.slots)
    idle = f"{_counted(free, 'slot')} of {where} {'is' if free == 1 else 'are'} free"
    wanted = {one.model for one in status.waiting}
    if len(status.waiting) == status.queue_length and all(one.is_local for one in status.waiting):
        return f"{waits} for this machine, on which {'it' if is_one else 'they'} must stay, while {idle}."
    if wanted and not any(one.models & wanted for one in offers if one.busy < one.slots):
        holders = _names(one.node.name for one in offers if one.models & wanted)
        on = f"on {holders} only" if holders else "on no node"
        return (
            f"{waits} for {_names(sorted(wanted), 'models')}, which is {on}, while {idle}: pull it there too."
        )
    return f"{waits} although {idle}: a place that is busy now ends {'it' if is_one else 'them'} sooner."


def _tail(status: Status, offers: Sequence[_Offer], slots: int, busy: int) -> str:
    idle = (
        f"{slots - busy} of {_counted(slots, 'slot')} {'has' if slots - busy == 1 else 'have'} nothing to do"
    )
    run = status.current_run
    if run is None or not run.ended or run.waiting or run.is_loop:
        return f"Nothing waits and {idle}: more requests at once would use them."
    names = {one.node.node: one.node.name for one in offers}
    where = _names(names.get(one.node or "", "?") for one in status.running)
    left = f"The last {_counted(len(status.running), 'request')} of the run"
    if len(status.running) == 1:
        left = "The last request of the run"
    return f"{left}, on {where}, set{'s' if len(status.running) == 1 else ''} its end; {idle}."


def _all(slots: int) -> str:
    return "The only slot is" if slots == 1 else f"All {slots} slots are"


def _counted(count: int, one: str) -> str:
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def _names(names: Iterable[str], of: str = "nodes") -> str:
    """The names, each once; over MOST_NAMES only how many."""
    found = list(dict.fromkeys(names))
    return " and ".join(found) if len(found) <= MOST_NAMES else f"{len(found)} {of}"

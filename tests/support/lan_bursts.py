"""A burst of requests on a LAN, and what holds for it: one outcome each, nothing lost before a first byte."""

import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Self

from pairproxy.api.schema import Record, Status
from tests.support.asking import Got
from tests.support.daemons import until
from tests.support.lan_nodes import LanNode

NOTICED_S = 6.0  # what is promised with a heartbeat of one second
SLACK = 5.0  # on a machine that has more to do; what hangs takes minutes


@dataclass(frozen=True)
class Seen:
    """What the clients of a burst got. ``whole``: to the end; ``broken``: a beginning; ``lost``: nothing."""

    asked: int
    whole: int
    broken: int
    lost: int


class Burst:
    """Requests of one run to one node, streamed or not, each in a thread."""

    def __init__(self, node: LanNode, run: str) -> None:
        self._node = node
        self._run = run
        self._asker = node.asker(run)
        self._replies: list[Future[Got]] = []

    def send(self, count: int, *, tokens: int = 30, stream: bool = True, words: str = "task") -> Self:
        """Send so many at once, each for a reply of so many tokens."""
        for _ in range(count):
            text = f"{words} {len(self._replies)}"
            self._replies.append(self._asker.start(text, tokens=tokens, stream=stream))
        return self

    def until_runs_on(self, *others: LanNode, has_first_byte: bool = True) -> None:
        """Return when something of the burst runs on each of these nodes, and has begun to be answered."""
        for other in others:
            until(
                lambda other=other: runs_on(self._node.status(), other, has_first_byte),  # type: ignore[misc]
                f"{other.name} works for {self._node.name}",
            )

    def seen(self) -> Seen:
        """Wait for all replies; fails unless the node counts exactly what the clients saw."""
        replies = [reply.result() for reply in self._replies]
        whole = [reply for reply in replies if is_whole(reply)]
        broken = [reply for reply in replies if reply not in whole and has_begun(reply)]
        seen = Seen(
            len(self._replies), len(whole), len(broken), len(self._replies) - len(whole) - len(broken)
        )
        records = until(self._records, f"{len(self._replies)} records of {self._run}")
        counted = Counter(record.outcome for record in records)
        assert counted == +Counter(done=seen.whole, truncated=seen.broken), (counted, seen, replies)
        return seen

    def broken_off(self) -> int:
        """Wait for all connections to end; how many replies did not come to their end."""
        endings = [reply.exception() or reply.result() for reply in self._replies]
        return sum(not isinstance(ending, Got) or not is_whole(ending) for ending in endings)

    def nodes(self) -> set[str | None]:
        """Where the requests ended; to be asked after seen()."""
        return {record.node for record in self._node.report(self._run).records}

    def _records(self) -> list[Record] | None:
        report = self._node.report(self._run)
        return list(report.records) if len(report.records) == len(self._replies) else None


def is_whole(reply: Got) -> bool:
    """Whether a reply came to the end of its framing and of its dialect."""
    return (
        reply.status == 200 and reply.is_whole and bool(reply.body) and reply.lines()[-1].get("done") is True
    )


def has_begun(reply: Got) -> bool:
    """Whether a client got the beginning of a reply, and was told in its dialect that it is no more."""
    if reply.status != 200 or not reply.body:
        return False
    lines = reply.lines()
    return not reply.is_whole and len(lines) > 1 and "error" in lines[-1] and "done" in lines[0]


def runs_on(status: Status, node: LanNode, has_first_byte: bool) -> bool:
    """Whether a request of the asked node runs there, and (if asked) has begun to be answered."""
    return any(one.node == node.id and (one.has_first_byte or not has_first_byte) for one in status.running)


def until_gone(observer: LanNode, other: LanNode, since: float, limit_s: float = SLACK * NOTICED_S) -> float:
    """Wait until a node takes another for gone; seconds since ``since`` (time.monotonic)."""
    until(lambda: not observer.view_of(other).is_up, f"{observer.name} misses {other.name}", limit_s)
    return time.monotonic() - since


def until_back(observer: LanNode, other: LanNode, since: float, limit_s: float = 30.0) -> float:
    """Wait until a node hears another again; seconds since ``since``."""
    until(lambda: observer.view_of(other).is_up, f"{observer.name} hears {other.name}", limit_s)
    return time.monotonic() - since


def until_used(origin: LanNode, node: LanNode) -> None:
    """Ask again and again, three at once and all answered whole, until the node serves one of them."""

    def is_used() -> bool:
        burst = Burst(origin, f"again {time.monotonic()}").send(3)
        assert burst.seen().whole == 3
        return node.id in burst.nodes()

    until(is_used, f"{node.name} is asked again by {origin.name}")


def at_rest(*nodes: LanNode) -> None:
    """Wait until nothing runs or waits anywhere, and no slot is counted as taken."""
    for node in nodes:
        until(lambda node=node: _is_at_rest(node.status()), f"{node.name} is at rest")  # type: ignore[misc]


def _is_at_rest(status: Status) -> bool:
    in_flight = sum(engine.in_flight for one in status.nodes if one.is_up for engine in one.engines)
    return not in_flight and not status.running and status.queue_length == 0

"""A bounded soak: a million requests' worth of events through ledger, counts and history; nothing may grow.

They come on a virtual clock, a hundred a second, in jobs with pauses between them; what history does beside
the loop is waited for. So hours of a busy node are a few minutes here.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psutil

from pairproxy.cli.bench.kept import ended
from pairproxy.cli.bench.tables import Row
from pairproxy.config import HistorySettings
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.report import report_run
from pairproxy.core.accounting.throughput import Throughput
from pairproxy.core.commands import Command, Dispatch
from pairproxy.core.events import AttemptFinished, Event, FirstByteReceived, RequestArrived
from pairproxy.core.models import AttemptId, Decision, NodeId, Outcome, Request, Usage
from pairproxy.ended import Ended
from pairproxy.history.trimming import size_of
from pairproxy.history.writing import History
from pairproxy.request_log import RequestLog
from pairproxy.totals import Totals

REQUESTS = 1_000_000
RATE = 100  # requests a second of the virtual clock
JOB, PAUSE_S = 200, 30.0  # requests of a run, and what its client then does without us: the run is over
FLUSH = 1000  # requests between two looks of history: a fourth of what may wait for the disk
KEEP_BYTES = (
    16 * 1024 * 1024
)  # of history.db: reached in the first percent, so that all the rest is at the limit
WARM = 30_000  # requests, after which nothing may grow: the largest table holds 16,384 (history.pending)
GROWN_MB = 4.0  # that may be added after it: what the allocator keeps in pieces, not what a leak would be
MB = 1024 * 1024
_SELF = NodeId("S" * 52)


class _Node:
    """All that hears what happens in a daemon and only looks on, with a clock of its own."""

    def __init__(self, home: Path) -> None:
        self.at = 0.0
        self.ledger, self.totals, self.throughput = Ledger(), Totals(), Throughput(lambda _: None)
        self.history = History(
            home, HistorySettings(keep_bytes=KEEP_BYTES), _SELF, (lambda: self.at, lambda: 1.8e9 + self.at),
            lambda: self.ledger.records, dict, lambda run: lambda: (report_run(run, {}, None), None), dict,
        )  # fmt: skip
        self._ended = Ended(lambda model: True)
        for follower in (self.totals.hear, RequestLog(lambda node: node[:8]).hear, self.history.ended):
            self._ended.follow(follower)
        self.ledger.follow(self._ended.hear)

    def tell(self, event: Event, commands: tuple[Command, ...] = ()) -> None:
        """What the dispatcher tells to all who look on."""
        for listener in (self.ledger.record, self.throughput.record, self.history.heard):
            listener(event, commands)

    def serve(self, request: Request, decision: Decision, usage: Usage) -> None:
        """One request from its arrival to its end."""
        attempt = AttemptId(request.id, 1)
        self.tell(RequestArrived(self.at, request), (Dispatch(attempt, decision),))
        self.tell(FirstByteReceived(self.at + 0.3, attempt))
        self.tell(AttemptFinished(self.at + 3.7, attempt, Outcome.DONE, usage))
        self.at += 1.0 / RATE


@dataclass(frozen=True, slots=True)
class _Seen:
    """What there was after so many requests."""

    requests: int
    memory_mb: float
    file_bytes: int


async def soak_table(requests: int, say: Callable[[str], None]) -> tuple[list[Row], list[str]]:
    """Rows and notes."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        home.mkdir(mode=0o700)
        node = _Node(home)
        began = psutil.Process().cpu_times()
        seen = await _soaked(node, requests, say)
        times = psutil.Process().cpu_times()
        dropped = node.history.problem is not None or node.ledger.overlooked
        await node.history.close()
    used_s = times.user + times.system - began.user - began.system
    return _rows(seen, used_s, node, missing=int(dropped)), [
        f"{requests:,} requests in runs of {JOB}, {RATE}/s of a virtual clock; no daemon, no scheduler.",
        f"Memory of the whole process; the first {WARM:,} fill its tables. history.keep_bytes is 16 MB.",
    ]


def _rows(seen: list[_Seen], used_s: float, node: _Node, *, missing: int) -> list[Row]:
    requests = seen[-1].requests
    warm = next(one for one in seen if one.requests >= min(WARM, requests))
    later = [one for one in seen if one.requests >= warm.requests]
    return [
        Row(f"memory, the most after {WARM:,} requests", max(one.memory_mb for one in later), unit="MB"),
        Row("memory, grown since", later[-1].memory_mb - warm.memory_mb, "<", GROWN_MB, "MB"),
        Row("history.db, the most", max(one.file_bytes for one in seen) / MB, "<=", KEEP_BYTES / MB, "MB"),
        Row("requests not accounted for", requests - sum(node.totals.requests.values()) + missing, "<=", 0),
        Row("a request costs, reports included", used_s / requests * 1e6, unit="us"),
    ]


async def _soaked(node: _Node, requests: int, say: Callable[[str], None]) -> list[_Seen]:
    """What there was after each hundredth of the way."""
    process, seen, every = psutil.Process(), list[_Seen](), max(requests // 100, FLUSH)
    asked = _asked()
    for number in range(1, requests + 1):
        node.serve(*next(asked))
        if number % JOB == 0:
            node.at += PAUSE_S
        if number % FLUSH == 0 or number == requests:
            await node.history.flush()
        if number % every == 0 or number == requests:
            size = size_of(node.history.path)
            seen.append(_Seen(number, process.memory_info().rss / MB, size))
            if number % (every * 10) == 0:
                say(f"{number:,} requests: {seen[-1].memory_mb:.1f} MB, history.db {size / MB:.1f} MB")
    return seen


def _asked() -> Iterator[tuple[Request, Decision, Usage]]:
    """Requests of an ordinary length, each with a decision among several places; every job has its name."""
    for number in count(1):
        record = ended(number, 0.0)
        decision = record.attempts[0].decision
        if decision is None:
            raise AssertionError("the request of a bench has no decision")
        request = Request(
            record.id, record.model, record.dialect, record.path, True, record.prompt_tokens,
            record.max_output_tokens, record.client, f"job-{number // JOB}",
            prefix=tuple(range(number, number + 20)),
        )  # fmt: skip
        yield request, decision, record.usage

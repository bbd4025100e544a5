"""What history costs: at each request, at a hundred requests a second, and on the disk."""

import asyncio
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pairproxy.cli.bench.tables import Row
from pairproxy.clock import wall
from pairproxy.config import HistorySettings
from pairproxy.core.accounting.records import AttemptRecord, RequestRecord
from pairproxy.core.accounting.report import report_run
from pairproxy.core.models import (
    Candidate,
    Decision,
    Dialect,
    EngineId,
    ModelName,
    NodeId,
    Outcome,
    Place,
    RequestId,
    Usage,
)
from pairproxy.history.marks import Ended
from pairproxy.history.store import FILE, Batch, Store
from pairproxy.history.trimming import size_of
from pairproxy.history.writing import History

NODES = 4  # each decision prices all of them
RATE = 100  # requests a second: far above what a handful of machines serves
SECONDS = 30.0  # of which the processor time is taken
AT_ONCE = 4096  # requests in memory, as many as a ledger holds
ON_DISK = 20_000  # requests, for what a thousand of them take
LOOP_US = 50.0  # that a request may hold the event loop for history: a hundredth of what serving it costs
CORE_PART = 0.02  # of a core, at that rate

_NODES = [NodeId(f"{number:02d}".ljust(52, "A")) for number in range(NODES)]
_PLACES = [Place(node, EngineId("ollama-11434")) for node in _NODES]


@dataclass
class _Load:
    """Requests that end one after the other, in runs of fifty; the last ones are in memory."""

    records: list[RequestRecord]
    number: int = 0

    def next(self) -> RequestRecord:
        """One more, which ends now."""
        self.number += 1
        record = ended(self.number, time.monotonic())
        self.records.append(record)
        if len(self.records) > AT_ONCE:
            del self.records[0]
        return record


def ended(number: int, at: float) -> RequestRecord:
    """A request of an ordinary length that ended, with its decision."""
    candidates = tuple(
        Candidate(place, 0.123456, 0.0, 0.234567, 3.456789, 1, 4, alone_s=3.2, read_s=0.21, cached_tokens=640)
        for place in _PLACES
    )
    place = _PLACES[number % NODES]
    decision = Decision(place, "fastest-finish", "finishes first, in 3.69 s", candidates)
    attempt = AttemptRecord(1, place, decision.reason, 3.691356, at - 3.7, at - 3.4, at, "done", decision)
    usage = Usage(1234, 640, 321, 0.234567, 3.456789, None, 321)
    return RequestRecord(
        RequestId(f"{number:032x}"), ModelName("qwen3:30b-a3b"), Dialect.OPENAI, "/v1/chat/completions",
        "127.0.0.1", f"run-{number // 50}", None, at - 3.8, at, (attempt,), Outcome.DONE, usage,
        prompt_tokens=1300, max_output_tokens=512,
    )  # fmt: skip


async def kept_table() -> tuple[list[Row], list[str]]:
    """Rows and notes."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        rows = [await _noting(home / "noting"), *await _at_rate(home / "rate")]
        rows += await asyncio.to_thread(_on_disk, home / "disk")
    return rows, [
        f"Requests with {NODES} candidates each, in runs of 50, {AT_ONCE} of them in memory; no daemon.",
        f"{RATE} requests/s for {SECONDS:g} s: processor time of the process, less that without history.",
        "On disk: decisions of the last 4,096 requests, reports and recordings of runs left out.",
    ]


def _history(home: Path, load: _Load) -> History:
    home.mkdir(mode=0o700)
    return History(
        home, HistorySettings(), _NODES[0], (time.monotonic, wall), lambda: tuple(load.records), dict,
        lambda run: lambda: (report_run(run, {}, None), None), dict,
    )  # fmt: skip


async def _noting(home: Path) -> Row:
    """What it does at once, when a request ends."""
    load = _Load([])
    history = _history(home, load)
    records = [ended(number, float(number)) for number in range(AT_ONCE)]
    began = time.thread_time()
    for record in records:
        history.ended(record)
    each_us = (time.thread_time() - began) / len(records) * 1e6
    return Row("a request holds the event loop", each_us, "<", LOOP_US, "us")


async def _at_rate(home: Path) -> list[Row]:
    alone = await _part(None, _Load([]))
    load = _Load([])
    for number in range(AT_ONCE):
        load.records.append(ended(number, time.monotonic() - AT_ONCE / RATE + number / RATE))
    load.number = AT_ONCE
    history = _history(home, load)
    task = asyncio.create_task(history.run())
    held = await _part(history, load)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await history.close()
    return [Row(f"{RATE} requests/s: of a core", held - alone, "<", CORE_PART, "%")]


async def _part(history: History | None, load: _Load) -> float:
    """The part of a core that it takes to hear of so many requests a second."""
    began, worked = time.monotonic(), time.process_time()
    for number in range(int(SECONDS * RATE)):
        record = load.next()
        if history is not None:
            history.ended(record)
        await asyncio.sleep(max(began + number / RATE - time.monotonic(), 0.0))
    return (time.process_time() - worked) / (time.monotonic() - began)


def _on_disk(home: Path) -> list[Row]:
    """What so many requests take to write, and on the disk when they are there."""
    home.mkdir(mode=0o700)
    store = Store(home / FILE, _NODES[0], 0.0)
    store.open()
    began, worked = time.monotonic(), time.thread_time()
    for first in range(0, ON_DISK, 500):
        batch = [Ended(one + 1, 0.0, ended(one, float(one))) for one in range(first, first + 500)]
        store.write(Batch(batch))
        store.trim(10**6, 10**12, 0.0)
    took_s, cpu_s = time.monotonic() - began, time.thread_time() - worked
    store.close()
    thousands = ON_DISK / 1000
    return [
        Row("1,000 requests: processor time to write", cpu_s / thousands * 1e3, unit="ms"),
        Row("1,000 requests: time to write", took_s / thousands * 1e3, unit="ms"),
        Row("1,000 requests: on disk", size_of(home / FILE) / thousands / 1e3, unit="kB"),
        Row("cores", float(os.cpu_count() or 1)),
    ]

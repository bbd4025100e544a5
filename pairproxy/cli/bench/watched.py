"""What it costs a daemon to be watched: the same minute with and without a page and a live view on it.

Two parts: the processor time of a real daemon, busy and then idle, in turns unwatched and watched; and what
one status and one report take with 2,000 requests on 16 nodes in memory.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from urllib.parse import quote

import aiohttp
import msgspec
import psutil

from pairproxy.api.client import read_daemon_file
from pairproxy.api.watching import Watch, watch_status
from pairproxy.cli.bench.legs import Bench
from pairproxy.cli.bench.recalled import Recalled, took_ms
from pairproxy.cli.bench.rig import Rig, equal
from pairproxy.cli.bench.rounds import Say
from pairproxy.cli.bench.tables import Row
from pairproxy.cli.bench.workloads import Workload
from pairproxy.cli.demo.cluster import DemoNode
from pairproxy.core.models import NodeId
from pairproxy.core.workload import SimRequest
from pairproxy.history.keeping import QUIET_S

NODES, SLOTS = 3, 4
EACH_S = 0.15  # a request comes: slots are mostly busy, and the queue is mostly empty
WINDOW_S = 8.0  # of which the processor time is taken: some hundred clock ticks
OVER_S = QUIET_S + 3.0  # after the run: its report for history is made once, watched or not
SETTLE_S = 1.0  # before each window, for what begins and ends with it
CORE_PART = 0.02  # of a core that being watched may cost
REQUESTS, LARGE_NODES = 2000, 16
READ_BYTES = 4 * 1024 * 1024  # of a line: a status of a few hundred kB
TERMINAL_S = 1.0  # from the command to its last line, the start of the interpreter included
LOOP_MS = 5.0  # that the event loop may be held by one status or report


async def watched_table(pairs: int, say: Say) -> tuple[list[Row], list[str]]:
    """Rows and notes: ``pairs`` windows of each kind, busy and idle. Raises PairproxyError."""
    async with Bench.of(Rig(equal(NODES, SLOTS)), "fastest-finish") as bench:
        seconds = pairs * 2 * (WINDOW_S + SETTLE_S) + SETTLE_S
        work = asyncio.create_task(bench.run(_steady(bench.nodes[0].name, seconds)))
        try:
            busy = await _compared("busy", bench.nodes[0], pairs, say)
        finally:
            await work
        await asyncio.sleep(OVER_S)
        idle = await _compared("idle", bench.nodes[0], pairs, say)
    return [*busy, *idle, *large()], [
        f"A daemon of {NODES} with paced engines; busy: a request of 60 tokens each {EACH_S:g} s.",
        "Watched: by a page (events, and each new report) and by `pairproxy status --watch`'s own reader.",
        f"{pairs} windows of {WINDOW_S:g} s each, in turns; processor time of the daemon's process.",
        f"{REQUESTS} requests on {LARGE_NODES} nodes: facts are read on the loop, the rest in a thread.",
    ]


def _steady(origin: str, seconds: float) -> Workload:
    count = int(seconds / EACH_S)
    requests = tuple(SimRequest(number * EACH_S, NodeId(origin), 200, 60) for number in range(count))
    return Workload("steady", f"a request each {EACH_S:g} s", requests)


def large() -> list[Row]:
    """What a status and a report take of a large run, and how large they are."""
    view = Recalled(REQUESTS, LARGE_NODES).view
    name = f"{REQUESTS} requests, {LARGE_NODES} nodes"
    make_report, report_loop_ms = took_ms(lambda: view.report(None))
    report, report_ms = took_ms(make_report)
    body, encoding_ms = took_ms(lambda: msgspec.json.encode(report))
    _, again_ms = took_ms(view.report(None, is_watched=True))
    make_status, status_loop_ms = took_ms(view.status)
    status, status_ms = took_ms(make_status)
    return [
        Row(f"{name}: a status holds the loop", status_loop_ms, "<", LOOP_MS, "ms"),
        Row(f"{name}: a status, in a thread", status_ms, unit="ms"),
        Row(f"{name}: a status", len(msgspec.json.encode(status)) / 1e3, unit="kB"),
        Row(f"{name}: a report holds the loop", report_loop_ms, "<", LOOP_MS, "ms"),
        Row(f"{name}: a report, in a thread", report_ms, unit="ms"),
        Row(f"{name}: a report that is kept, in a thread", again_ms + encoding_ms, unit="ms"),
        Row(f"{name}: a report", len(body) / 1e3, unit="kB"),
        Row(f"{name}: `pairproxy report`, the whole command", _in_terminal_s(body), "<", TERMINAL_S, "s"),
    ]


def _in_terminal_s(report: bytes) -> float:
    """Seconds that the command takes to show a report, from its start to its end."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "report.json"
        file.write_bytes(report)
        began_at = time.monotonic()
        command = [sys.executable, "-m", "pairproxy", "report", "--from", str(file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - began_at


async def _compared(name: str, node: DemoNode, pairs: int, say: Say) -> list[Row]:
    """The parts of a core that it takes, by itself and watched."""
    parts: dict[bool, list[float]] = {False: [], True: []}
    for number in range(pairs):
        for is_watched in (False, True) if number % 2 == 0 else (True, False):
            parts[is_watched].append(await _part(node, is_watched))
        say(f"{name}: {parts[False][-1]:.2%} of a core, watched {parts[True][-1]:.2%}")
    alone, watched = mean(parts[False]), mean(parts[True])
    return [
        Row(f"{name}: of a core", alone, unit="%"),
        Row(f"{name}, watched by two: of a core", watched, unit="%"),
        Row(f"{name}: being watched costs", watched - alone, "<", CORE_PART, "%"),
        Row(f"{name}: watched / unwatched", watched / max(alone, 1e-9), unit="times"),
    ]


async def _part(node: DemoNode, is_watched: bool) -> float:
    """The part of a core that the daemon takes in one window."""
    process = psutil.Process(node.process.pid)
    watch = watch_status(node.home)
    tasks: list[asyncio.Task[None]] = []
    if is_watched:
        tasks.append(asyncio.create_task(_page(node)))
        tasks.append(asyncio.create_task(asyncio.to_thread(_drain, watch)))
    try:
        await asyncio.sleep(SETTLE_S)
        before, began_at = _cpu_s(process), time.monotonic()
        await asyncio.sleep(WINDOW_S)
        return (_cpu_s(process) - before) / (time.monotonic() - began_at)
    finally:
        watch.close()
        for task in tasks[:1]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _drain(watch: Watch) -> None:
    for _ in watch:
        pass


async def _page(node: DemoNode) -> None:
    """Read events as a page does, and each report that is said to be new."""
    file = read_daemon_file(node.home)
    url = f"http://{file.admin_host}:{file.admin_port}"
    silence = aiohttp.ClientTimeout(total=None)
    session = aiohttp.ClientSession(timeout=silence, read_bufsize=READ_BYTES)
    async with session, session.get(f"{url}/events") as events:
        event = b""
        async for line in events.content:
            if line.startswith(b"event: "):
                event = line[7:].strip()
            elif line.startswith(b"data: ") and event == b"run":
                run = msgspec.json.decode(line[6:], type=dict[str, str])["run"]
                async with session.get(f"{url}/report?watched=true&run={quote(run)}") as report:
                    await report.read()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)

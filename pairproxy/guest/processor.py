"""How much of the processor programs use that are neither an engine nor pairproxy.

What an engine computes for us must not look like its owner's work. So the seconds of all engines, of this
daemon and of what they started are taken off the seconds of the whole machine. Where that cannot be done,
because one of them came or went meanwhile, this look says nothing; the next one does.
"""

import contextlib
import math
import os
import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import psutil

ENGINES = re.compile(r"(ollama|llama[-_]server|lm[ -]?studio|llmster|lms\b|vllm)", re.IGNORECASE)
"""Beginnings of the names of engines' programs; others are found by the ports at which they answer."""
SCAN_EVERY_S = 60.0  # of the table of processes, some ms; and whenever others seem to begin
SCAN_LEAST_S = 5.0  # between two where processes of ours come and go all the time
PORTS_EVERY_S = 600.0  # who listens at the engines' ports: that reads all descriptors, some 50 ms
LEAST_WINDOW_S = 0.5  # between two looks: the kernel counts in steps of 10 ms
MOST_PROCESSES = 4096  # looked at in one scan, and followed at once


@dataclass(slots=True)
class _Look:
    at: float
    busy_s: float
    ours: dict[int, float] = field(default_factory=dict)  # pid -> seconds of the processor


class Processor:
    """The processors of this machine. May block for some ms: for a thread."""

    def __init__(
        self,
        own: int | None = None,
        ports: Callable[[], Collection[int]] = tuple,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``own``: the process of the daemon. ``ports``: at which engines answer on this machine."""
        self._own = own or os.getpid()
        self._ports = ports
        self._now = now
        self._cores = psutil.cpu_count() or 1
        self._last: _Look | None = None
        self._scanned_at = self._asked_at = -math.inf
        self._is_due = False
        self._listeners: set[int] = set()
        self._table: dict[int, tuple[int, str, psutil.Process]] = {}
        self._was_much = False
        self._ours: dict[int, psutil.Process] = {}

    @property
    def ours(self) -> Collection[int]:
        """The processes of engines, of this daemon and of what they started, as they were scanned last."""
        return self._ours.keys()

    def others(self, much: float) -> float | None:
        """The part of all cores that others used since the last look, 0 to 1; None: unknown this time.

        From ``much`` on the table of processes is looked at anew first: it may be an engine's new process.
        """
        now = self._now()
        if self._last is not None and now - self._last.at < LEAST_WINDOW_S:
            return None
        self._scan_if_due(now)
        look, before = self._look(now), self._last
        self._last = look
        part = None if before is None else self._part(before, look)
        is_new = part is not None and part >= much and not self._was_much
        if is_new and now - self._scanned_at < SCAN_LEAST_S:
            return None  # whose it is will be known in a moment
        if is_new:
            self._scan(now, ports_every_s=SCAN_EVERY_S)
            self._last = self._look(now)
            if self._last.ours.keys() != look.ours.keys():
                return None
        self._was_much = part is not None and part >= much
        return part

    def forget(self) -> None:
        """The next look is a first one."""
        self._last = None

    def _part(self, before: _Look, look: _Look) -> float | None:
        """None, if a process of ours came or went: what it used is not known."""
        if before.ours.keys() != look.ours.keys():
            return None
        ours_s = sum(look.ours[pid] - used for pid, used in before.ours.items())
        window_s = (look.at - before.at) * self._cores
        return min(max((look.busy_s - before.busy_s - ours_s) / window_s, 0.0), 1.0)

    def _look(self, now: float) -> _Look:
        times = psutil.cpu_times()
        look = _Look(now, times.user + times.system + getattr(times, "nice", 0.0))
        gone = []
        for pid, process in self._ours.items():
            try:
                used = process.cpu_times()
            except psutil.AccessDenied:  # of another user, on macOS
                continue
            except psutil.Error:
                gone.append(pid)
                continue
            look.ours[pid] = used.user + used.system
        for pid in gone:
            del self._ours[pid]
            self._is_due = True  # others may have come for it
        return look

    def _scan_if_due(self, now: float) -> None:
        if now - self._scanned_at >= (SCAN_LEAST_S if self._is_due else SCAN_EVERY_S):
            self._scan(now)

    def _scan(self, now: float, ports_every_s: float = PORTS_EVERY_S) -> None:
        self._scanned_at, self._is_due = now, False
        found = self._looked_through()
        roots = {pid for pid, (_, name, _) in found.items() if ENGINES.match(name)}
        if now - self._asked_at >= ports_every_s or not self._listeners <= found.keys():
            self._asked_at, self._listeners = now, self._listening()
            self._table = {}  # a pid may have been given anew, and is asked again next time
        roots |= {self._own, *self._listeners}
        family = descendants(roots, {pid: parent for pid, (parent, _, _) in found.items()})
        self._ours = {pid: found[pid][2] for pid in family if pid in found}

    def _looked_through(self) -> dict[int, tuple[int, str, psutil.Process]]:
        """The processes that there are, each with its parent and its name; only new ones are asked."""
        alive = set(psutil.pids()[:MOST_PROCESSES])
        known = self._table
        for pid in known.keys() - alive:
            del known[pid]
        for pid in alive - known.keys():
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                known[pid] = process.ppid(), process.name(), process
        return known

    def _listening(self) -> set[int]:
        """The processes that listen at the engines' ports, as far as the system tells us."""
        ports = set(self._ports())
        if not ports:
            return set()
        try:
            connections = psutil.net_connections(kind="tcp")
        except (psutil.Error, OSError):  # on macOS only root may see them
            return set()
        return {
            one.pid
            for one in connections
            if one.pid and one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port in ports
        }


def descendants(roots: Collection[int], parents: dict[int, int]) -> set[int]:
    """``roots`` with all that they started and that those started. ``parents``: pid -> its parent."""
    found: set[int] = set()
    others: set[int] = set()
    for pid in parents:
        path: list[int] = []
        one = pid
        while one in parents and one not in found and one not in others and one not in roots:
            path.append(one)
            one = parents[one] if parents[one] not in path else 0  # a pid that was given anew: a circle
        (found if one in roots or one in found else others).update(path)
    return found | (set(roots) & parents.keys())

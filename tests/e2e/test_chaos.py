"""A thousand requests through three nodes that are killed, stopped and cut off at random, by a seed.

CHAOS_SEED picks another course, CHAOS_CONTINUATION=1 lets replies go on elsewhere. The course is the seed's
as far as the machine's speed allows.
"""

import asyncio
import os
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import aiohttp
import psutil
import pytest

from tests.support.chaos import NAMES, Cluster, Life, Nemesis
from tests.support.chaos_clients import Asked, End, ask
from tests.support.daemons import FAULTS, Daemons
from tests.support.running import run_async

SEED = int(os.environ.get("CHAOS_SEED", "1"))
CONTINUATION = bool(os.environ.get("CHAOS_CONTINUATION"))
REQUESTS = 1000
CLIENTS = 20
LIMIT_S = 280.0
RSS_BYTES = 200 * 1024 * 1024  # a daemon has about 90 MB
DESCRIPTORS = 64  # ports, files, a state stream each way, and some connections that idle
NOTICED_S = 30.0  # five times what is promised: the machine may be busy, and what hangs takes minutes
AGREES = {
    End.DONE: {"done"},
    End.TRUNCATED: {"truncated"},
    # It may have been over, one way or the other, when the client hung up.
    End.LEFT: {"cancelled", "done", "truncated"},
}


async def storm(cluster: Cluster, random: Random, ended: list[Asked]) -> None:
    """Ask from many clients while the nemesis works; every request comes to ``ended``."""
    numbers = iter(range(REQUESTS))

    async def client(session: aiohttp.ClientSession) -> None:
        for _ in numbers:
            name = random.choice(sorted(cluster.up) or list(NAMES))
            life = cluster.lives[name]
            life.asked += 1
            port = life.node.port if name in cluster.up else 0
            ended.append(asked := await ask(session, port, name, life.number, life.run, random))
            if asked.end in (End.LOST, End.TRUNCATED) and died(cluster, asked):
                asked.end = End.ORIGIN_DIED
            await asyncio.sleep(random.uniform(0.0, 0.3))

    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    nemesis = Nemesis(cluster, random)
    async with asyncio.TaskGroup() as group, aiohttp.ClientSession(connector=connector) as session:
        group.create_task(nemesis.run())
        await asyncio.gather(*(client(session) for _ in range(CLIENTS)))
        nemesis.end()


def died(cluster: Cluster, asked: Asked) -> bool:
    """Whether its origin was killed while it was under way."""
    return any(
        fault.kind == "kill -9" for fault in cluster.touching([asked.origin], asked.asked_at, asked.ended_at)
    )


def is_excused(cluster: Cluster, asked: Asked, names: dict[str, str]) -> bool:
    """Whether a reply that broke off had a reason: its node, or the way to it, was broken meanwhile."""
    both = {asked.origin, names[asked.node]}
    return bool(cluster.touching(both, asked.asked_at, asked.ended_at)) and len(both) == 2


async def at_rest(cluster: Cluster) -> None:
    """Nothing runs or waits anywhere, in anybody's view; sockets that nobody uses are closed."""

    def is_resting(life: Life) -> bool:
        status = life.node.status()
        in_flight = [engine.in_flight for node in status.nodes for engine in node.engines]
        return not status.running and not status.queue_length and not any(in_flight)

    for name, life in cluster.lives.items():
        await cluster.until(lambda life=life: is_resting(life), f"{name} is at rest")  # type: ignore[misc]
        process = psutil.Process(life.node.pid)
        await cluster.until(
            lambda process=process: all(  # type: ignore[misc]
                one.status != psutil.CONN_CLOSE_WAIT for one in process.net_connections("tcp")
            ),
            f"{name} has closed what others closed",
        )
        await cluster.until(lambda process=process: process.num_fds() < DESCRIPTORS, "it closed its own")  # type: ignore[misc]
        life.descriptors = process.num_fds()
        life.rss_bytes = process.memory_info().rss
        assert life.node.children() == []


def check_ledgers(cluster: Cluster, ended: list[Asked]) -> None:
    """What clients saw is what the ledgers hold: one record a request, with the same outcome."""
    for life in [*cluster.past, *cluster.lives.values()]:
        mine = [one for one in ended if (one.origin, one.life) == (life.node.name, life.number)]
        is_whole = life is cluster.lives[life.node.name]
        for one in mine:
            if one.id and one.end in AGREES and (is_whole or one.id in life.records):
                assert life.records.get(one.id) in AGREES[one.end], (one, life.records.get(one.id))
        assert not set(life.records.values()) & {"refused", "failed"}, life.records
        if is_whole:
            assert sum(bool(one.id) for one in mine) <= len(life.records) <= life.asked


def told(cluster: Cluster, ended: list[Asked], seconds: float) -> str:
    """The figures of a course, for whoever reads the test's output."""
    ends = Counter(one.end for one in ended).most_common()
    kinds = Counter(fault.kind for fault in cluster.faults).most_common()
    noticed = sorted(fault.noticed_s for fault in cluster.faults if fault.noticed_s is not None)
    lives = cluster.lives.values()
    long = sum(fault.is_long for fault in cluster.faults)
    return (
        f"\nchaos, seed {SEED}{', continued' if CONTINUATION else ''}: "
        f"{len(ended)} requests in {seconds:.0f} s: "
        + ", ".join(f"{count} {end}" for end, count in ends)
        + f"\n  {', '.join(f'{count} x {kind}' for kind, count in kinds)}; noticed {len(noticed)} of {long} "
        f"long ones, after {noticed[-1] if noticed else 0.0:.1f} s at worst; "
        f"{max(life.rss_bytes for life in lives) / 2**20:.0f} MB and "
        f"{max(life.descriptors for life in lives)} descriptors at most\n"
        + "".join(f"  {one}\n" for one in ended if one.end in (End.LOST, End.REFUSED))
    )


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 60.0)
def test_a_thousand_requests_while_nodes_are_killed_stopped_and_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has one outcome; none is lost before its first byte while its origin lives; nothing is left."""

    ended: list[Asked] = []

    async def scene(cluster: Cluster) -> None:
        async with cluster.running():
            await storm(cluster, Random(SEED), ended)
            await cluster.until_whole()
            await at_rest(cluster)
            for name in NAMES:
                await cluster.look(name)

    began_at = time.monotonic()
    with Daemons(tmp_path) as daemons:
        cluster = Cluster(daemons, continuation=CONTINUATION)
        try:
            run_async(scene(cluster), LIMIT_S)
        finally:
            with capsys.disabled():
                sys.stdout.write(told(cluster, ended, time.monotonic() - began_at))
        names = {life.node.id: name for name, life in cluster.lives.items()}
    noticed = [fault.noticed_s for fault in cluster.faults if fault.noticed_s is not None]
    assert len(ended) == REQUESTS
    lost = [one for one in ended if one.end in (End.LOST, End.REFUSED)]
    assert not lost, lost[:5]
    broken = [one for one in ended if one.end is End.TRUNCATED and not is_excused(cluster, one, names)]
    assert not broken, broken[:5]
    check_ledgers(cluster, ended)
    assert max(noticed, default=0.0) < NOTICED_S
    assert all(life.rss_bytes < RSS_BYTES for life in cluster.lives.values())
    faulty = [node.log for node in daemons.nodes if any(fault in node.log for fault in FAULTS)]
    assert not faulty, faulty[0]

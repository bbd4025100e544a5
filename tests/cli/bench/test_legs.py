import asyncio
import re
from dataclasses import replace

import psutil
import pytest

from pairproxy.cli.bench.asking import Reply
from pairproxy.cli.bench.legs import Bench, Leg, ask_json, port_of
from pairproxy.cli.bench.rig import NodeSpec, Rig, names
from pairproxy.cli.bench.workloads import Workload, burst
from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import NodeId
from pairproxy.core.workload import SimRequest
from tests.cli.bench.conftest import RIG
from tests.support.asking import Asker

REPLY = Reply(1.0, 3.0, 5.0, "slow", 1, 100, 50, 20, "words")


def test_a_leg_is_its_replies() -> None:
    """Makespan from the first question to the last end; refused attempts are those beyond one per request."""
    leg = Leg((REPLY, replace(REPLY, asked_s=2.0, first_s=8.0, ended_s=11.0, node="fast", attempts=3)))
    assert leg.makespan_s == 10.0
    assert leg.ttfts_s == (2.0, 6.0)
    assert (leg.hit_rate, leg.refused) == (0.5, 0.5)
    assert leg.mean_latency_s == 6.5
    assert leg.per_node == {"slow": 1, "fast": 1}


@pytest.mark.slow
def test_alone_means_on_that_node_and_through_its_own_port() -> None:
    """Every reply comes from the named node, and both kinds of legs name nodes as the rig does."""

    async def scene() -> tuple[Leg, Leg]:
        async with Bench.of(RIG, "fastest-finish") as bench:
            workload = burst(5, names(RIG.nodes)[:1], 2)
            return await bench.run(workload, alone="fast"), await bench.run(workload)

    alone, together = asyncio.run(scene())
    assert alone.per_node == {"fast": 5}
    assert set(together.per_node) <= {"slow", "fast"}
    assert sum(together.per_node.values()) == 5


@pytest.mark.slow
def test_handing_over_gives_each_node_as_many_whatever_its_speed() -> None:
    """Six at once on two nodes are three and three, though one is four times as fast."""

    async def scene() -> Leg:
        async with Bench.of(RIG, "fastest-finish") as bench:
            return await bench.run(burst(6, names(RIG.nodes)[:1], 2), hands_over=True)

    assert asyncio.run(scene()).per_node == {"slow": 3, "fast": 3}


@pytest.mark.slow
def test_an_engine_that_held_more_than_its_slots_fails_the_bench() -> None:
    """The engine counts by itself: asked beside its daemon, it has held two, and the next leg says so."""
    rig = Rig((NodeSpec("only", 1, 1e6, 400.0),))

    async def scene() -> None:
        async with Bench.of(rig, "fastest-finish") as bench:
            (node,) = bench.nodes
            assert ask_json(port_of(node), "/props")["most_at_once"] == 1
            direct = await asyncio.to_thread(engine_port, node.process.pid, port_of(node))
            body = {"prompt": "hello", "max_tokens": 40}
            asker = Asker(direct)
            await asyncio.gather(
                *(asyncio.to_thread(asker.request, "POST", "/v1/completions", body) for _ in range(2))
            )
            await bench.run(burst(1, names(rig.nodes), 1))

    with pytest.raises(PairproxyError, match=re.escape("given 2 requests at once and has 1 slots")):
        asyncio.run(scene())


def engine_port(pid: int, client_port: int) -> int:
    """The port of the paced engine itself: of the daemon's other ports, the one that has /slots."""
    listening = {
        connection.laddr.port
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.status == "LISTEN" and connection.laddr.port != client_port
    }
    for port in listening:
        try:
            if Asker(port).request("GET", "/slots").status == 200:
                return port
        except OSError:
            continue
    raise AssertionError("the engine listens nowhere")


@pytest.mark.parametrize(
    "fault",
    [
        "Traceback (most recent call last):\n  File x\nSomeError: no\n",
        "2026 ERROR asyncio: broke\n  Traceback (most recent call last):\n    File x\n  SomeError: no\n",
    ],
    ids=["of Python", "of the log"],
)
def test_a_daemon_with_a_fault_is_quoted_before_its_log_is_gone(fault: str) -> None:
    """A reply that failed says its status; the last traceback is told, whatever the log says after it."""
    rig = Rig((NodeSpec("only", 1, 1e6, 400.0),))
    too_long = Workload("", "", (SimRequest(0.0, NodeId("only"), 140_000, 10),))

    async def scene() -> tuple[str, str]:
        async with Bench.of(rig, "fastest-finish") as bench:
            with pytest.raises(ExceptionGroup) as without:
                await bench.run(too_long)
            with (bench.nodes[0].home / "log").open("a") as log:
                log.write(fault)
            with pytest.raises(PairproxyError) as quoted:
                await bench.run(too_long)
        (error,) = without.value.exceptions
        return str(error), str(quoted.value)

    status, told = asyncio.run(scene())
    assert "HTTP 400" in status
    assert told.startswith("only has a fault")
    assert "File x" in told
    assert told.endswith("SomeError: no")

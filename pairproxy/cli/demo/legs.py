"""Alone and together in turn: the same job through the same port, once for one node and once for all."""

import asyncio
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pairproxy.api.schema import NodeStatus
from pairproxy.cli.demo.cluster import Cluster, DemoNode, demo_settings
from pairproxy.cli.demo.job import Answer, Leg, load_clients, run_leg
from pairproxy.cli.measuring import recorded, service_of
from pairproxy.config import cache_dir
from pairproxy.core.accounting.comparison import Comparison, LegResult, compare, explain
from pairproxy.core.models import NodeId


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run."""

    nodes: int
    requests: int
    engine: str
    rounds: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it."""

    plan: Plan
    nodes: tuple[NodeStatus, ...]
    discovered_by: str | None
    comparison: Comparison
    explanation: tuple[str, ...]
    answers: tuple[Answer, ...]
    names: dict[NodeId, str]


class Watcher(Protocol):
    """Whoever shows the progress."""

    def fetching(self, done: int, total: int) -> None:
        """The model is being fetched; bytes."""

    def starting(self, nodes: int) -> None:
        """The nodes are being started."""

    def started(self, home: Path, page: str) -> None:
        """They are there; ``home`` is that of the one that is asked, ``page`` the address of its page."""

    def leg(self, round_number: int, rounds: int, is_alone: bool, requests: int) -> None:
        """A leg begins."""

    def tokens(self, index: int, count: int) -> None:
        """A sub-agent has ``count`` pieces of its answer."""

    def leg_done(self, makespan_s: float) -> None:
        """The leg is over."""


async def run_demo(plan: Plan, watcher: Watcher) -> Result:
    """Start the nodes, run all legs, stop the nodes, compare. Raises PairproxyError, alone or in a group."""
    await asyncio.to_thread(load_clients)
    if plan.engine == "embedded":
        from pairproxy.engines.model_fetch import fetch_model

        await fetch_model(cache_dir(), watcher.fetching)
    watcher.starting(plan.nodes)
    async with Cluster(demo_settings(plan.nodes, plan.engine)) as cluster:
        first = cluster.nodes[0]
        watcher.started(first.home, f"http://{first.file.admin_host}:{first.file.admin_port}/")
        nodes = (await asyncio.to_thread(cluster.status, first)).nodes
        alone: list[LegResult] = []
        together: list[LegResult] = []
        answers: list[Answer] = []
        for number in range(plan.rounds):
            for is_alone, legs in ((True, alone), (False, together)):
                watcher.leg(number + 1, plan.rounds, is_alone, plan.requests)
                leg = _leg(plan, first, nodes, is_alone, number)
                makespan_s, answers = await run_leg(leg, plan.requests, watcher.tokens)
                legs.append(await _result(first, leg, makespan_s, answers))
                watcher.leg_done(makespan_s)
    slots = {NodeId(node.node): sum(engine.slots for engine in node.engines) for node in nodes}
    names = {NodeId(node.node): node.name for node in nodes}
    comparison = compare(alone, together, slots)
    found_by = next((node.found_by for node in nodes if not node.is_self), None)
    explanation = tuple(explain(comparison, names))
    return Result(plan, nodes, found_by, comparison, explanation, tuple(answers), names)


def _leg(plan: Plan, node: DemoNode, nodes: tuple[NodeStatus, ...], is_alone: bool, number: int) -> Leg:
    own = next(one for one in nodes if one.is_self)
    return Leg(
        port=next(iter(node.file.client_ports.values())),
        model=own.engines[0].replicas[0].model,
        name=f"{'alone' if is_alone else 'together'}-{number + 1}",
        nonce=secrets.token_hex(4),
        is_local_only=is_alone,
        tokens=plan.tokens,
    )


async def _result(node: DemoNode, leg: Leg, makespan_s: float, answers: list[Answer]) -> LegResult:
    """The leg as its origin recorded it, in the order of the tasks."""
    wanted = {answer.request for answer in answers}
    found = await recorded(node.home, leg.name, lambda there: wanted <= {one.request for one in there})
    records = {record.request: record for record in found}
    return LegResult(makespan_s, tuple(service_of(records[answer.request]) for answer in answers))

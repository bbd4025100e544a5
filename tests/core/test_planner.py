"""The walk; what it leads to is shown by the conversations of test_scheduler."""

from random import Random

import pytest

from pairproxy.core.asking import Asking
from pairproxy.core.avoidance import Avoidance
from pairproxy.core.chain_homes import ChainHomes
from pairproxy.core.chains import ChainTable
from pairproxy.core.costs import Costs
from pairproxy.core.errors import ModelNotFound, SlotsTaken
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import AttemptId, ModelName, RequestId, Usage
from pairproxy.core.nodes import NodeTable
from pairproxy.core.planner import Placed, Planner
from pairproxy.core.pricing import Pricing
from pairproxy.core.promises import PromiseBook
from pairproxy.core.queue import Waiting
from pairproxy.core.rules import Rules
from pairproxy.core.running import Running, RunningTable
from pairproxy.core.timing import Timing
from tests.core.told import FAST, GPU, A, B, M, ask, at, document, report


def planner(*running: Running, node_b: bool = True) -> Planner:
    """A slow node with one engine, and a fast peer that is busy for two seconds."""
    costs, table, nodes = Costs(), RunningTable(), NodeTable()
    costs.learn(GPU, M, Usage(1000, None, 1000, 4.0, 40.0), Timing(), is_cold=True)
    local = LocalEngines(A, costs)
    local.report(report())
    for one in running:
        table.add(one)
    if node_b:
        nodes.report(document(B, rates=FAST, frees=(2.0,)), 0.0)
    pricing = Pricing(local, nodes, table, Avoidance(), PromiseBook())
    chains = ChainHomes(ChainTable(), pricing, local, nodes, table)
    return Planner(Rules(), pricing, Asking(A, nodes, table), chains, Random(0))


def test_the_walk_parts_who_goes_from_who_waits() -> None:
    """In the order of the queue; whoever stands behind reckons with those before."""
    queue = [Waiting(ask(f"r{number}", limit=200), 0.0) for number in range(4)]
    placed, rest = planner().walk(queue, 0.0)
    assert [(one.waiting.request.id, one.pick.place) for one in placed] == [("r3", at(A))]
    assert [waiting.request.id for waiting in rest] == ["r0", "r1", "r2"]
    assert [one.wait_s for one in placed[0].decision.candidates] == pytest.approx([0.0, 2.0 + 3 * 2.1])


def test_nobody_is_priced_while_nothing_is_free() -> None:
    """Then all wait, in order."""
    running = Running(AttemptId(RequestId("r"), 1), ask("r"), at(A), FAST, 0.0, 5.0)
    queue = [Waiting(ask(f"r{number}"), 0.0) for number in range(3)]
    placed, rest = planner(running).walk(queue, 0.0)
    assert (placed, list(rest)) == ([], queue)


def test_who_has_no_place_holds_up_nobody() -> None:
    """A request for a model that is nowhere just now lets the others pass."""
    queue = [Waiting(ask("x", model=ModelName("unknown")), 0.0), Waiting(ask("r"), 0.0)]
    placed, rest = planner(node_b=False).walk(queue, 0.0)
    assert [one.waiting.request.id for one in placed] == ["r"]
    assert [waiting.request.id for waiting in rest] == ["x"]


def test_a_guest_is_placed_or_told_why_not() -> None:
    """Only a slot that is free now counts."""
    guest = Waiting(ask("g", origin=B), 0.0)
    assert isinstance(planner().admit(guest, 0.0), Placed)
    unknown = Waiting(ask("g", origin=B, model=ModelName("unknown")), 0.0)
    assert isinstance(planner().admit(unknown, 0.0), ModelNotFound)
    running = Running(AttemptId(RequestId("r"), 1), ask("r"), at(A), FAST, 0.0, 5.0)
    full = planner(running, node_b=False)
    assert isinstance(full.admit(guest, 0.0), SlotsTaken)
    assert full.first_free_s(0.0) == pytest.approx(1.1, rel=0.02)

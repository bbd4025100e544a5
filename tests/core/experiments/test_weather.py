"""The world of the storm: what is delivered, and what it notices."""

from random import Random

import pytest

from pairproxy.core.commands import Command, Dispatch
from pairproxy.core.events import RequestArrived
from pairproxy.core.experiments.lives import Life, Work, request
from pairproxy.core.experiments.weather import DEAF_LIMIT_S, IDLE_LIMIT_S, STARVE_LIMIT_S, World
from pairproxy.core.models import NodeId, Place, Rates, RequestId
from pairproxy.core.workload import ENGINE
from tests.core.told import A, B


class Calm(World):
    """Nodes and a network that loses nothing; what is dispatched here runs for ever, the rest is dropped."""

    def __init__(self, *nodes: NodeId) -> None:
        super().__init__(Random(0))
        self.odds = dict.fromkeys(self.odds, 0.0)
        for node in nodes:
            self.lives[node] = life = Life(node, 1, 1, Rates(1000.0, 50.0, 0.15), self._perform)
            life.begin(0.0)
            self.soon(0.0, lambda at, life=life: self.beat(life, at))  # type: ignore[misc]

    def _perform(self, life: Life, command: Command, at: float) -> None:
        if isinstance(command, Dispatch) and command.decision.place.node == life.id:
            life.works[command.attempt] = Work(command.attempt, command.decision.place.engine, None)

    def until(self, at: float) -> None:
        """Let time pass."""
        while self.at < at:
            self.step()

    def arrive(self, node: NodeId, name: str) -> None:
        """A client asks at a node."""
        self.tell(self.lives[node], RequestArrived(self.at, request(RequestId(name), 100, 100, "c")))


def test_documents_come_to_every_other_node_and_not_through_a_cut() -> None:
    """And who hears nothing for long takes the other for gone."""
    world = Calm(A, B)
    world.until(2.0)
    assert world.lives[A].scheduler.nodes.age(B, world.at) is not None
    world.cut[frozenset((A, B))] = 20.0
    assert world.is_cut(B, A)
    world.until(10.0)
    assert world.lives[A].scheduler.nodes.age(B, world.at) is None
    world.until(22.0)
    assert world.lives[A].scheduler.nodes.age(B, world.at) is not None
    assert world.result.broken == []


def test_a_life_that_is_over_hears_nothing() -> None:
    """Nor is anything it is told counted."""
    world = Calm(A)
    world.lives[A].is_over = True
    before = world.result.events
    world.arrive(A, "r")
    assert world.result.events == before
    assert world.lives[A].scheduler.waiting == 0


def test_a_free_slot_that_somebody_waits_for_is_noticed() -> None:
    """After the time in which a promise should have come; one nobody asked for, or that is held, may be."""
    world, place = Calm(A), Place(A, ENGINE)
    life = world.lives[A]
    world.look_for_idle_slots(life, {place}, 0.0)
    world.look_for_idle_slots(life, set(), 2.0)
    world.look_for_idle_slots(life, {place}, 3.0)
    world.look_for_idle_slots(life, {place}, 3.0 + IDLE_LIMIT_S / 2)
    world.arrive(A, "r")
    world.look_for_idle_slots(life, {place}, 5.0)
    life.works.clear()
    world.look_for_idle_slots(life, {place}, 6.0)
    assert world.result.broken == []
    world.look_for_idle_slots(life, {place}, 6.2 + IDLE_LIMIT_S)
    assert len(world.result.broken) == 1
    assert world.result.most_idle_s > IDLE_LIMIT_S


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_slot_wanted_by_who_cannot_be_heard_is_not_missed(is_cut: bool) -> None:
    """A plan that wants a slot behind a cut starves nobody; the same without a cut is a fault."""
    world = Calm(A, B)
    world.lives[A].slots = 16
    world.tell(world.lives[A], world.lives[A].probed(0.0))
    world.until(1.5)
    world.odds["lost"] = 1.0
    if is_cut:
        world.cut[frozenset((A, B))] = 9.0
    for number in range(12):
        world.arrive(B, f"r{number}")
    world.until(1.5 + 0.2)
    assert Place(A, ENGINE) in world.lives[B].scheduler.asked_for
    world.until(1.5 + 1.2 * IDLE_LIMIT_S)
    missed = [fault for fault in world.result.broken if "a slot is free for" in fault]
    assert bool(missed) is not is_cut


def test_who_does_not_know_the_present_life_of_a_peer_is_noticed() -> None:
    """It could hear it, and does not; behind a cut it may."""
    world = Calm(A, B)
    world.until(1.0)
    world.lives[B].epoch = 2
    world.odds["lost"] = 1.0
    world.cut[frozenset((A, B))] = 20.0
    world.until(20.0)
    assert world.result.broken == []
    world.until(20.5 + DEAF_LIMIT_S)
    assert any("believes b to be in life" in fault for fault in world.result.broken)


def test_an_origin_that_gets_nothing_is_noticed() -> None:
    """Its queue holds something, nothing of it runs, and time goes by."""
    world = Calm(A)
    world.arrive(A, "runs")
    world.arrive(A, "waits")
    assert world.lives[A].scheduler.waiting == 1
    world.lives[A].works.clear()
    world.until(STARVE_LIMIT_S + 1.0)
    assert any("1 requests wait, and none runs" in fault for fault in world.result.broken)

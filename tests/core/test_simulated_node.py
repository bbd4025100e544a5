import pytest

from pairproxy.core.events import EngineReported, SpeedMeasured
from pairproxy.core.models import AttemptId, EngineId, NodeId, Rates, RequestId
from pairproxy.core.rules import Rules
from pairproxy.core.simulated_gpu import Phase, Reached
from pairproxy.core.simulated_node import SimulatedNode
from pairproxy.core.virtual_clock import VirtualClock
from pairproxy.core.workload import ENGINE, MODEL, SimEngine, SimNode, SimRequest

RATES = Rates(prefill=100.0, decode=10.0, beta=0.0, load_s=5.0)
WORK = SimRequest(0.0, NodeId("a"), 100, 20)


class World:
    """One node, its clock, and what it told."""

    def __init__(self, sim: SimNode) -> None:
        self.clock = VirtualClock()
        self.told: list[tuple[EngineId, Reached]] = []
        self.node = SimulatedNode(
            sim, Rules(), self.clock, lambda _, engine, one: self.told.append((engine, one))
        )

    def run(self) -> None:
        """Until nothing is to come."""
        while not self.clock.is_idle:
            self.clock.step()


def test_a_node_finds_out_about_its_engines() -> None:
    """Speeds first, if they are known, so that the report is published with them."""
    sim = SimNode.of("a", 3, RATES)
    kinds = [type(event) for event in World(sim).node.introduction(0.0, knows_speeds=True)]
    assert kinds == [SpeedMeasured, EngineReported]
    (event,) = World(sim).node.introduction(0.0, knows_speeds=False)
    assert isinstance(event, EngineReported)
    assert (event.report.slots, event.report.replicas[0][1]) == (3, True)
    (cold,) = World(SimNode.of("a", 1, RATES, is_loaded=False)).node.introduction(0.0, knows_speeds=False)
    assert isinstance(cold, EngineReported)
    assert not cold.report.replicas[0][1]


def test_measured_speeds_are_the_true_ones() -> None:
    """Load time included; the bend of the curve is the prior of the kind."""
    node = World(SimNode.of("a", 3, RATES)).node
    for event in node.introduction(0.0, knows_speeds=True):
        node.scheduler.handle(event)
    rates = node.scheduler.local.rates(ENGINE, MODEL)
    assert (rates.prefill, rates.decode, rates.load_s) == pytest.approx((100.0, 10.0, 5.0))


def test_a_calibration_can_be_off() -> None:
    """The node believes what it measured, and works at its true rates."""
    world = World(SimNode.of("a", 3, RATES, measured=2.0))
    for event in world.node.introduction(0.0, knows_speeds=True):
        world.node.scheduler.handle(event)
    assert world.node.scheduler.local.rates(ENGINE, MODEL).decode == pytest.approx(20.0)
    world.node.start(0.0, AttemptId(RequestId("r"), 1), ENGINE, WORK)
    world.run()
    assert world.told[-1][1].at == pytest.approx(3.0)


def test_a_node_can_be_slowed() -> None:
    """From a moment on all that runs there goes slower."""
    world = World(SimNode.of("a", 1, RATES))
    list(world.node.introduction(-1.0, knows_speeds=True))
    world.node.start(0.0, AttemptId(RequestId("r"), 1), ENGINE, WORK)
    world.clock.at(2.0, lambda at: world.node.set_pace(0.5, at))
    world.run()
    assert world.told[-1][1].at == pytest.approx(4.0)


def test_phases_are_told_as_they_end() -> None:
    """Each at its time, from whichever engine; a stopped request ends silently."""
    cpu = EngineId("cpu")
    engines = (SimEngine(ENGINE, 1, {MODEL: RATES}), SimEngine(cpu, 1, {MODEL: RATES}))
    world = World(SimNode(NodeId("a"), engines))
    list(world.node.introduction(-1.0, knows_speeds=False))
    first, second = AttemptId(RequestId("r1"), 1), AttemptId(RequestId("r2"), 1)
    world.node.start(0.0, first, ENGINE, WORK)
    world.clock.at(0.5, lambda at: world.node.start(at, second, cpu, WORK))
    places = []
    for time in (1.9, 2.1):
        world.clock.at(time, lambda _: places.append(world.node.engine_of(second)))
        world.clock.at(2.0, lambda at: world.node.stop(at, second))
    world.run()
    assert places == [cpu, None]
    heard = [(engine, one.attempt, one.phase) for engine, one in world.told]
    assert heard == [
        (ENGINE, first, Phase.LOAD), (cpu, second, Phase.LOAD), (ENGINE, first, Phase.PREFILL),
        (cpu, second, Phase.PREFILL), (ENGINE, first, Phase.DECODE),
    ]  # fmt: skip
    assert [one.at for _, one in world.told] == pytest.approx([0.0, 0.5, 1.0, 1.5, 3.0])


def test_a_lost_node_is_silent() -> None:
    """What runs there is never told again."""
    world = World(SimNode.of("a", 1, RATES))
    world.node.start(0.0, AttemptId(RequestId("r"), 1), ENGINE, WORK)
    world.node.is_lost = True
    world.run()
    assert world.told == []
    assert not world.node.has_open_requests

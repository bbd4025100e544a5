"""When a front is open."""

from dataclasses import replace

from pairproxy.core.documents import EngineReport
from pairproxy.core.events import EngineLost, EngineReported, NodeReported
from pairproxy.core.models import EngineId, NodeId
from pairproxy.core.rules import Rules
from pairproxy.core.scheduler import Scheduler
from pairproxy.fronts.opening import CLOSE_AFTER_S, OPEN_AFTER_S, Opening, can_serve
from tests.core.told import document


def test_it_stays_open_over_a_restart_and_closes_after_it() -> None:
    """What is back in time was never away; what is not closes the port, and what comes back opens it."""
    opening = Opening(is_open=True)
    assert opening.judge(can_serve=False, at=0.0)
    assert not opening.is_settled
    assert opening.judge(can_serve=True, at=CLOSE_AFTER_S - 0.1)
    assert opening.is_settled
    assert opening.judge(can_serve=False, at=10.0), "counted anew"
    assert opening.judge(can_serve=False, at=10.0 + CLOSE_AFTER_S - 0.1)
    assert not opening.judge(can_serve=False, at=10.0 + CLOSE_AFTER_S)
    assert not opening.judge(can_serve=True, at=20.0)
    assert opening.judge(can_serve=True, at=20.01 + OPEN_AFTER_S)


def test_an_engine_here_can_serve_while_it_answers() -> None:
    """Also one without a model: it can be told to fetch one."""
    scheduler = Scheduler(NodeId("own"))
    assert not can_serve(scheduler, 0.0)
    scheduler.handle(EngineReported(0.0, EngineReport(EngineId("e"), "ollama", "1", 1, ())))
    assert can_serve(scheduler, 0.0)
    scheduler.handle(EngineLost(1.0, EngineId("e")))
    assert not can_serve(scheduler, 1.0)


def test_a_peer_can_serve_while_it_is_heard_takes_work_and_has_a_model() -> None:
    """Not one that is silent for long, is stopping, or may not be used by the policy."""
    scheduler = Scheduler(NodeId("own"))
    told = document(NodeId("peer"))
    scheduler.handle(NodeReported(0.0, told))
    assert can_serve(scheduler, 0.0)
    assert not can_serve(scheduler, 60.0), "nothing was heard since"
    scheduler.handle(NodeReported(60.0, replace(told, sequence=told.sequence + 1, is_draining=True)))
    assert not can_serve(scheduler, 60.0)
    alone = Scheduler(NodeId("own"), Rules(policy="local-only"))
    alone.handle(NodeReported(0.0, told))
    assert not can_serve(alone, 0.0)

"""The offering of a daemon: put together of its scheduler, its engines and this machine."""

from collections.abc import Collection, Sequence
from pathlib import Path

from pairproxy.clock import wall
from pairproxy.config import PeerSettings
from pairproxy.core.events import OfferChanged
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher
from pairproxy.engines.own import OwnEngines
from pairproxy.guest.inputs import RUN_TIMEOUT_S
from pairproxy.guest.machine import Machine
from pairproxy.guest.offering import Offering
from pairproxy.takeover.running import CommandFailed, Runner


def offering(
    settings: PeerSettings, home: Path, scheduler: Scheduler, dispatcher: Dispatcher, engines: OwnEngines
) -> Offering:
    """Tells the scheduler what is offered; reads nothing before it begins."""
    runner = Runner(may_ask=False)

    def run(argv: Sequence[str]) -> str:
        try:
            done = runner.run(argv, timeout_s=RUN_TIMEOUT_S)
        except CommandFailed:
            return ""
        return done.out if done.is_ok else ""

    def ports() -> Collection[int]:
        return {engine.address("/v1")[1] for engine in engines.engines}

    def at_work() -> tuple[int, int]:
        here = [one for one in scheduler.running if one.place.node == scheduler.own]
        return len(here), sum(one.request.origin is not None for one in here)

    return Offering(
        scheduler.own,
        settings,
        home,
        Machine(ports, run),
        lambda withheld: dispatcher.tell(OfferChanged(dispatcher.now(), withheld)),
        at_work,
        dispatcher.now,
        wall,
    )

"""A takeover from one end to the other: a daemon whose front stands in for an engine that stand-ins manage.

with front(tmp_path, system, "ollama") as node:
    taking = Taking(node, system, "ollama", MacApp(), Machine(system.runner))
    taking.take(taking.plan(owner), owner)
    taking.release()
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import structs

from pairproxy.config import EngineKind
from pairproxy.takeover import record
from pairproxy.takeover.asking import answers, ask
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.moving import Move, Mover, Owner, Plan
from pairproxy.takeover.plan import Pair, Planned
from pairproxy.takeover.restarting import Restart
from pairproxy.takeover.steps import Step
from pairproxy.takeover.taking import Moved, TakeoverFailed, release, take
from tests.support.daemons import Daemons, Node
from tests.support.stand_ins import StandIns

HOW: tuple[Literal["before", "after"], ...] = ("before", "after")
GONE_S = 1.0  # in place of 30 s: no stand-in takes longer to end
CONFIG = """
[peers]
listen = "127.0.0.1:0"
loopback = true
[admin]
listen = "127.0.0.1:0"
[[engines]]
kind = "{kind}"
url = "http://127.0.0.1:{moved}"
listen = "127.0.0.1:{usual}"
"""


@contextlib.contextmanager
def front(directory: Path, system: StandIns, kind: str) -> Iterator[Node]:
    """A daemon with a front at the system's usual port."""
    with Daemons(directory) as daemons:
        daemons.home("A", CONFIG.format(kind=kind, moved=system.moved, usual=system.usual))
        (node,) = daemons.start("A")
        yield node


@dataclass
class Taking:
    """One engine, taken over and released as the commands do it."""

    node: Node
    system: StandIns
    kind: EngineKind
    mover: Mover
    machine: Machine

    def plan(self, owner: Owner, *, is_now: bool = False) -> Plan:
        """What the mover wants to do."""
        move = Move(self.kind, owner, self.system.usual, self.system.moved, is_now)
        assert self.mover.applies(move)
        plan = self.mover.plan(move, self.machine)
        return hasty(plan)

    def take(self, plan: Plan, owner: Owner) -> Moved:
        """Move it; the daemon has the port afterwards, and asks the engine at its private one."""
        pair = Pair(self.kind, self.system.usual, self.system.moved)
        planned = Planned(pair, "take", "", owner, self.mover.name, plan)
        with record.alone(self.node.home):
            return take(self.node.home, planned, self.machine, lambda _: None)

    def release(self) -> Moved:
        """Put it back."""
        taken = record.read(self.node.home).of(self.kind)
        assert taken is not None
        with record.alone(self.node.home):
            return release(self.node.home, taken, self.machine, lambda _: None)

    def check_served(self) -> None:
        """The daemon answers on the usual port with what the engine says, which is at its private port."""
        path = "/api/version" if self.kind == "ollama" else "/v1/models"
        direct, through = ask(self.system.moved, path), ask(self.system.usual, path)
        assert direct is not None
        assert through is not None
        assert (through.status, through.body) == (direct.status, direct.body)

    def check_back(self, files: dict[str, Any]) -> None:
        """The engine is on its usual port, and nowhere else; every file is as it was; nothing is recorded."""
        self.system.until_answers(self.kind, self.system.usual)
        assert not answers(self.kind, self.system.moved)
        assert self.system.files() == files
        assert record.read(self.node.home).taken == ()

    def check_interruptions(self, owner: Callable[[], Owner]) -> None:
        """Every command of a takeover fails once, before it did anything and after; each of a release too.

        ``owner``: tells who has the port now.
        """
        files, plan = self.system.files(), self.plan(owner())
        taking = self._count(lambda: self.take(plan, owner()))
        releasing = self._count(self.release)
        self.check_back(files)
        for how in HOW:
            for number in range(1, taking + 1):
                plan = self.plan(owner())
                self.system.fail(number, how)
                with pytest.raises(TakeoverFailed, match="Everything was put back"):
                    self.take(plan, owner())
                self.system.fail_none()
                self.check_back(files)
            for number in range(1, releasing + 1):
                self.take(self.plan(owner()), owner())
                self.system.fail(number, how)
                self.release()
                self.system.fail_none()
                self.check_back(files)

    def _count(self, act: Callable[[], object]) -> int:
        """How many commands it runs."""
        before = len(self.system.calls)
        act()
        return len(self.system.calls) - before


def hasty(plan: Plan) -> Plan:
    """The same plan, with less patience for programs that do not end."""
    steps: tuple[Step, ...] = tuple(
        structs.replace(step, gone_s=GONE_S) if isinstance(step, Restart) else step for step in plan.steps
    )
    return Plan(steps, plan.notes, plan.warnings, plan.facts)

"""What became of nodes and engines: who came, went, was forgotten, and which models changed."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pairproxy.core.events import EngineLost, EngineReported, Event, NodeForgotten, NodeLost, NodeReported
from pairproxy.core.models import NodeId, Replica
from pairproxy.core.nodes import usable

MOST_NAMES = 20  # of models that one change names; more are counted
NAME_CHARACTERS = 100  # of each; a longer name is cut
MOST_IN_WINDOW = 60  # changes of one node in WINDOW_S: a node that flaps is seen to, and pushes out no others
WINDOW_S = 60.0

ABOUT_NODES = frozenset({NodeReported, NodeLost, NodeForgotten, EngineReported, EngineLost})
"""The events that can change something; the others come three for each request, and are not looked at."""
_Models = tuple[tuple[str, str], ...]
"""(name, identity) of each replica, in the order in which they were told."""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """``what``: started, stopped (this daemon), up, new (up for the first time), down, forgotten,
    engine-up, engine-down, models. ``detail``: an engine, or JSON that says which models.
    """

    at_unix: float
    node: NodeId
    what: str
    detail: str = ""


KINDS = (NodeReported, NodeLost, NodeForgotten, EngineReported, EngineLost)
"""Events that may change anything here."""


class Changes:
    """Hears every event and says what changed; what stays as it is costs a comparison."""

    def __init__(self, own: NodeId) -> None:
        self._own = own
        self._up: set[NodeId] = set()
        self._models: dict[tuple[NodeId, str], _Models] = {}  # (node, engine) -> what it has
        self._windows: dict[NodeId, tuple[float, int]] = {}  # since when, how many

    def heard(self, event: Event, at_unix: float) -> list[NodeChange]:
        """What an event changed; ``at_unix`` is now. What is too much of a node goes untold."""
        found = self._found(event, at_unix)
        if not found or isinstance(event, NodeForgotten):
            return found
        began, count = self._windows.get(found[0].node, (float("-inf"), 0))
        if not 0.0 <= at_unix - began < WINDOW_S:
            began, count = at_unix, 0
        told = found[: MOST_IN_WINDOW - count]
        self._windows[found[0].node] = began, count + len(told)
        return told

    def _found(self, event: Event, at_unix: float) -> list[NodeChange]:
        match event:
            case NodeReported():
                return [NodeChange(at_unix, *one) for one in self._reported(event)]
            case NodeLost(_, node) | NodeForgotten(_, node):
                what = "down" if isinstance(event, NodeLost) else "forgotten"
                was_up = node in self._up
                self._forget(node)
                if isinstance(event, NodeForgotten):
                    self._windows.pop(node, None)
                return [NodeChange(at_unix, node, what)] if was_up or what == "forgotten" else []
            case EngineReported(_, report):
                replicas = (replica for replica, _ in report.replicas)
                told = self._engine(self._own, report.engine, replicas)
                return [NodeChange(at_unix, *one) for one in told]
            case EngineLost(_, engine):
                known = self._models.pop((self._own, engine), None)
                return [] if known is None else [NodeChange(at_unix, self._own, "engine-down", engine)]
            case _:
                return []

    def _reported(self, event: NodeReported) -> Iterator[tuple[NodeId, str, str]]:
        document = usable(event.document)  # what others reckon with: a peer may say anything
        node = document.node
        if node not in self._up:
            self._up.add(node)
            yield node, "up", ""
        engines = {state.engine for state in document.engines}
        for state in document.engines:
            yield from self._engine(node, state.engine, (one.replica for one in state.replicas))
        for key in [key for key in self._models if key[0] == node and key[1] not in engines]:
            del self._models[key]
            yield node, "engine-down", key[1]

    def _engine(
        self, node: NodeId, engine: str, replicas: Iterable[Replica]
    ) -> Iterator[tuple[NodeId, str, str]]:
        now = tuple((one.model, one.identity) for one in replicas)
        before = self._models.get((node, engine))
        if before == now:
            return
        self._models[node, engine] = now
        if before is None:
            yield node, "engine-up", engine
        elif set(before) != set(now):
            yield node, "models", _difference(engine, before, now)

    def _forget(self, node: NodeId) -> None:
        self._up.discard(node)
        for key in [key for key in self._models if key[0] == node]:
            del self._models[key]


def _difference(engine: str, before: _Models, now: _Models) -> str:
    """Which models came, went, or have another content; by name, the first MOST_NAMES of each."""
    old, new = dict(before), dict(now)
    groups = {
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
        "changed": sorted(name for name in old.keys() & new.keys() if old[name] != new[name]),
    }
    told: dict[str, object] = {"engine": engine}
    for word, names in groups.items():
        if names:
            told[word] = [name[:NAME_CHARACTERS] for name in names[:MOST_NAMES]]
            if len(names) > MOST_NAMES:
                told[f"{word}_more"] = len(names) - MOST_NAMES
    return json.dumps(told, ensure_ascii=False)

"""Who can serve a request: every place that holds its replica and is able to, this node's first."""

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import replace

from pairproxy.core import gates, replicas
from pairproxy.core.dialects import routes
from pairproxy.core.documents import EngineReport, EngineState, ReplicaState
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import ModelName, Place, Replica, Request
from pairproxy.core.nodes import NodeTable

Holder = tuple[Place, EngineReport | EngineState, ReplicaState]
"""A place with its engine and the replica there."""
Found = list[tuple[Place, ReplicaState]]
_Kind = tuple[object, ...]
MOST_KINDS = 64  # of requests whose places are remembered; a cluster's clients ask in a handful of ways


class Holders:
    """Reads what the engines here and the peers list."""

    def __init__(self, local: LocalEngines, nodes: NodeTable) -> None:
        self._local = local
        self._nodes = nodes
        self.runners = gates.Runners()
        self._windows: dict[ModelName, list[int]] = {}
        self._found: dict[_Kind, Found] = {}
        self._is_held = False  # nothing changes; else it may
        self._first: tuple[Request, Found] | None = None  # who was asked for first then, mostly the only one
        self._found_with = (-1, -1, -1)  # what had changed how often, when all that was found

    def hold(self) -> None:
        """Nothing changes until let_go(): requests of one kind are looked at once.

        Where there is no peer it is still true the next time, until an engine or a speed is another one.
        """
        if self._is_held:
            return
        self._is_held, self._first = True, None
        before, now = self._found_with, (self._local.news, self._local.version, self.runners.changes)
        if now == before and self._nodes.is_empty and len(self._found) < MOST_KINDS:
            return
        if now[0] != before[0] or len(self._windows) >= MOST_KINDS or not self._nodes.is_empty:
            self._windows = {}  # of engines, whatever their speed
        self._found, self._found_with = {}, now if self._nodes.is_empty else (-1, -1, -1)

    def let_go(self) -> None:
        """What is known may change again."""
        self._is_held = False

    def places(self, request: Request, excluded: Collection[Place], at: float) -> Found:
        """Places with the request's replica that can serve it. This node's come first.

        A peer's request, and one that must stay here, sees this node only; a peer's, the engine it chose. A
        model that nobody lists goes to the engine whose port was called: its answer is the authoritative one.
        A loaded replica that would have to be loaded anew for this request counts as cold.
        """
        found = self._found_before(request, at) if self._is_held else self._find(request, at)
        return [one for one in found if one[0] not in excluded] if excluded else found

    def kind(self, request: Request) -> _Kind:
        """Equal for requests that the same places can serve: that differ in size, but by no window."""
        windows = self._windows.get(request.model)
        if windows is None:
            self._windows[request.model] = windows = self._all_windows(request.model)
        size = bisect_left(windows, request.prompt_tokens + (request.max_output_tokens or 0))
        return (
            request.model, request.path, request.engine, request.local_only, request.stays, request.needs,
            request.coding, request.context_tokens, request.origin, request.runner, request.begun, size,
        )  # fmt: skip

    def is_known(self, request: Request) -> bool:
        """Whether any node, also one that does not answer just now, could serve it."""
        here = self._here(request, self._called_window(request))
        return bool(here) or self._is_elsewhere(request)

    def _found_before(self, request: Request, at: float) -> Found:
        first = self._first
        if first is not None and first[0] is request:
            return first[1]
        kind = self.kind(request)
        found = self._found.get(kind)
        if found is None:
            found = self._found[kind] = self._find(request, at)
        if first is None:
            self._first = request, found
        return found

    def _all_windows(self, model: ModelName) -> list[int]:
        """Every window of it that is known, the smallest first."""
        here = [*self._local.places(model, None), *self._local.lost_places(model)]
        states = [state for _, _, state in (*here, *self._nodes.replicas(model))]
        return sorted(
            {one.replica.context_tokens for one in states if one.replica.context_tokens is not None}
        )

    def _find(self, request: Request, at: float) -> Found:
        enough_tokens = self._called_window(request)
        here, there = self._here(request, enough_tokens), self._there(request, enough_tokens, at)
        is_plain = len(here) + len(there) < 2 and request.begun is None  # the only one is the right one
        found: Found = []
        for place, engine, state in here + there if is_plain else _alike(request, here, there):
            has_to_load = not state.is_loaded or self.runners.has_to_reload(
                request, place, engine.kind, state.replica
            )
            is_changed = has_to_load and state.is_loaded
            found.append((place, replace(state, is_loaded=False) if is_changed else state))
        return found

    def _here(self, request: Request, enough_tokens: int | None) -> list[Holder]:
        """This node's engines that can serve it; the called one is asked whatever we think of it."""
        called = request.engine
        found: list[Holder] = [
            one for one in self._local.places(request.model, called) if _may_run(request, one, enough_tokens)
        ]
        if not found and called is not None and request.origin is None and not self._is_elsewhere(request):
            found = [*self._local.unlisted(request.model, called)]
        return found

    def _there(self, request: Request, enough_tokens: int | None, at: float) -> list[Holder]:
        """The peers' engines that can serve it."""
        if self._nodes.is_empty or _must_stay(request):
            return []
        holders = self._nodes.healthy_replicas(request.model, at)
        return [one for one in holders if _fits(request, one, enough_tokens)]

    def _is_elsewhere(self, request: Request) -> bool:
        """Whether anything but this node's engines that answer could serve it: a peer, a silent engine here.

        Also a peer that does not answer just now: both may come back in a moment.
        """
        if any(_may_run(request, one, None) for one in self._local.lost_places(request.model)):
            return True
        if _must_stay(request):
            return False
        return any(_fits(request, one, None) for one in self._nodes.replicas(request.model))

    def _called_window(self, request: Request) -> int | None:
        """The window of the engine that was called, if it is known."""
        for place, _, state in self._local.places(request.model, request.engine):
            return state.replica.context_tokens if place.engine == request.engine else None
        return None


def _alike(request: Request, here: list[Holder], there: list[Holder]) -> list[Holder]:
    """Those with the content that the request gets, and that can go on with it if it has begun."""
    exactly = routes.is_embedding(request.path)
    wanted = request.begun or main_replica(here, there, exactly)
    return [
        one
        for one in here + there
        if wanted is not None
        and replicas.is_same(wanted, one[2].replica, exactly=exactly)
        and (request.begun is None or one[2].continues)
    ]


def _must_stay(request: Request) -> bool:
    return request.origin is not None or request.local_only or request.stays is not None


def _may_run(request: Request, own: Holder, enough_tokens: int | None) -> bool:
    """Whether an engine of this node may get it: the called one, whatever it is, or one that fits."""
    called = request.engine
    if own[0].engine == called:
        return True
    is_bound = called is not None and (request.origin is not None or request.stays is not None)
    return not is_bound and _fits(request, own, enough_tokens)


def _fits(request: Request, holder: Holder, enough_tokens: int | None) -> bool:
    _, engine, state = holder
    return gates.fits(request, engine.kind, engine.version, state.replica, enough_tokens)


def main_replica(here: list[Holder], there: list[Holder], exactly: bool) -> Replica | None:
    """The content that a request of this node gets: this machine's own, else the one that most slots hold.

    An alias says which content is meant only where nothing else does. ``exactly``: the called engine says it.
    """
    if exactly and here:
        return here[0][2].replica
    own = [one for one in here if not replicas.is_alias(one[2].replica)]
    others = [one for one in there if not replicas.is_alias(one[2].replica)]
    if own or not others:
        first = own or here
        return first[0][2].replica if first else _widest(there)
    return _widest(others)


def _widest(holders: list[Holder]) -> Replica | None:
    """The replica that is the same as those on most slots."""
    slots: dict[Replica, int] = {}
    for _, engine, state in holders:
        slots[state.replica] = slots.get(state.replica, 0) + engine.slots
    weights = {
        one: sum(count for other, count in slots.items() if replicas.is_same(one, other)) for one in slots
    }
    return max(weights, key=lambda replica: (weights[replica], replica.identity), default=None)

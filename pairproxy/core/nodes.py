"""NodeTable: this node's view of every peer, built from their state documents."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pairproxy.core.catalogue import CatalogueTable
from pairproxy.core.documents import EngineState, Promise, ReplicaState, StateDocument, Wanted, Withheld
from pairproxy.core.models import EngineId, ModelName, NodeId, Place, Replica
from pairproxy.core.prefix_news import HeardFrom
from pairproxy.core.rules import STALE_S

MAX_ENGINES: Final = 32  # of one node; nobody runs more
MAX_REPLICAS: Final = 1000  # of one engine
MAX_SLOTS = 4096  # of one node; vLLM's largest batches are in the hundreds, and each slot costs every plan
PROMISED_S: Final = 1.0  # no slot is kept for longer; they last a quarter of it
MAX_WANTED: Final = 64  # models that a node waits for; a queue holds a few hundred requests
MAX_WANTED_PREFIXES: Final = 8  # of one of them
MOST_WAITING: Final = 4096  # requests of one model: as many as an engine may have slots
MOST_TOKENS: Final = 1e9  # that they have together, or an engine keeps, or a window has
MOST_LIVES: Final = 8  # of one node that are remembered as over
LONGEST_S: Final = 86_400.0  # a day: no slot is held and no model loads for longer
SLOWEST, FASTEST = 1e-3, 1e9  # tokens/s
MOST_BETA: Final = 1e3
MOST_ASKED: Final = 1024  # names of models, also such as nobody has, for which an answer is kept
NAME_CHARACTERS: Final = 256
REASON_CHARACTERS: Final = 32  # of the word for why nothing is offered; ours have ten at most
CONTENT_CHARACTERS: Final = 8 * NAME_CHARACTERS  # LM Studio's is put together of six names (engines.found)
MAX_CAPABILITIES: Final = 32  # of a model; Ollama knows a handful

Found = tuple[Place, EngineState, ReplicaState]
"""A peer's place with its engine and the replica there."""


class _View:
    def __init__(self, document: StateDocument, received_at: float) -> None:
        self.document = document
        self.received_at = received_at
        self.engines = {Place(document.node, engine.engine): engine for engine in document.engines}


class _Holder:
    """A place that was seen with a model."""

    def __init__(self, view: _View, found: Found) -> None:
        self.view = view
        self.found = found


class NodeTable:
    """The latest state document of each peer, with its age."""

    def __init__(self, stale_s: float = STALE_S) -> None:
        self.catalogues = CatalogueTable()
        self.prefixes = HeardFrom()
        self.stale_s = stale_s
        self._views: dict[NodeId, _View] = {}
        self._holders: dict[ModelName, list[_Holder]] = {}  # by what was asked for since anything was heard
        self._over: dict[NodeId, deque[str]] = {}  # epochs of lives taken for over

    def report(self, document: StateDocument, at: float) -> bool:
        """Take in a document; False for one that is older than what is known, or of a life that is over.

        Which of two lives is over cannot be seen from their names. What a dead one said may come late, but
        ends: so the one that is taken for over is heard again when the other was silent for ``stale_s``.
        Engines and replicas whose numbers cannot be reckoned with are left out: a fault of one peer must not
        stop the others.
        """
        known = self._views.get(document.node)
        if not _is_name(document.epoch):
            return False
        over = self._over.setdefault(document.node, deque(maxlen=MOST_LIVES))
        is_over = document.epoch in over
        if is_over and known is not None and at < known.received_at + self.stale_s:
            return False
        if is_over:
            over.remove(document.epoch)
        if known is not None and known.document.epoch != document.epoch:
            over.append(known.document.epoch)
        elif known is not None and known.document.sequence > document.sequence:
            self.prefixes.take_in_late(usable(document))
            return False
        told = usable(document)
        is_new_life = known is None or known.document.epoch != document.epoch
        self.prefixes.take_in(told, is_new_life=is_new_life)
        engines = tuple(replace(engine, prefixes=None) for engine in told.engines)  # they are kept once
        self._views[document.node] = _View(replace(told, engines=engines), at)
        self._holders.clear()
        return True

    def lose(self, node: NodeId) -> None:
        """Forget what a node said of its state; its listing, which it names, is good when it comes back."""
        self._views.pop(node, None)
        self._holders.clear()
        self.prefixes.lose(node)

    def forget(self, node: NodeId) -> None:
        """Let go of all that a node ever told."""
        self.lose(node)
        self._over.pop(node, None)
        self.catalogues.forget(node)

    @property
    def is_empty(self) -> bool:
        """Whether no other node is known at present."""
        return not self._views

    def epoch(self, node: NodeId) -> str | None:
        """The life that a node is in; None: nothing is known of it."""
        view = self._views.get(node)
        return None if view is None else view.document.epoch

    def next_promise_end(self, at: float) -> float | None:
        """When the next slot that a peer promised to somebody is free again, if it is not used."""
        ends = (
            view.received_at + promise.for_s
            for view in self._views.values()
            for engine in view.document.engines
            for promise in engine.promises
        )
        return min((end for end in ends if end > at), default=None)

    def documents(self, at: float) -> Iterator[tuple[StateDocument, float]]:
        """Every known peer's document and its age in seconds."""
        for view in self._views.values():
            yield view.document, at - view.received_at

    def age(self, node: NodeId, at: float) -> float | None:
        """Seconds since the node's last document; None if there is none."""
        view = self._views.get(node)
        return None if view is None else at - view.received_at

    def next_stale(self, at: float) -> float | None:
        """When the next healthy node becomes stale, if nothing arrives from it."""
        times = [view.received_at + self.stale_s for view in self._views.values()]
        return min((time for time in times if time > at), default=None)

    def engine(self, place: Place) -> tuple[EngineState, float] | None:
        """The engine at a place and the time its state was received."""
        view = self._views.get(place.node)
        engine = None if view is None else view.engines.get(place)
        return None if view is None or engine is None else (engine, view.received_at)

    def places(self) -> list[Place]:
        """Every place that any peer told of."""
        return [place for view in self._views.values() for place in view.engines]

    def fresh(self, at: float) -> Iterator[StateDocument]:
        """The documents of nodes that are there: as origins they count, whether they take requests or not."""
        for view in self._views.values():
            if at < view.received_at + self.stale_s:
                yield view.document

    def healthy(self, at: float) -> Iterator[StateDocument]:
        """The documents of nodes that take requests now: fresh, not draining."""
        return (document for document in self.fresh(at) if not document.is_draining)

    def healthy_replicas(self, model: ModelName, at: float) -> list[Found]:
        """Where a model may run now: fresh, not draining."""
        return [
            one.found
            for one in self._holders_of(model)
            if at < one.view.received_at + self.stale_s and not one.view.document.is_draining
        ]

    def replicas(self, model: ModelName) -> list[Found]:
        """Where any peer, healthy or not, was seen with this model."""
        return [one.found for one in self._holders_of(model)]

    def _holders_of(self, model: ModelName) -> list[_Holder]:
        known = self._holders.get(model)
        if known is None:
            if len(self._holders) >= MOST_ASKED:
                self._holders.clear()
            known = self._holders[model] = [
                _Holder(view, (place, engine, state))
                for view in self._views.values()
                for place, engine in view.engines.items()
                for state in engine.replicas
                if state.replica.model == model
            ]
        return known

    def identities(self, model: ModelName) -> dict[NodeId, Replica]:
        """The replica each peer holds under this name."""
        return {place.node: state.replica for place, _, state in self.replicas(model)}


def usable(document: StateDocument) -> StateDocument:
    """What can be reckoned with of a document: each engine, and each model of one, once."""
    engines: dict[EngineId, EngineState] = {}
    left = MAX_SLOTS
    for engine in document.engines[:MAX_ENGINES]:
        size = max(engine.slots, len(engine.frees_in_s))
        if engine.engine not in engines and size <= left and _is_engine(engine):
            left -= size
            engines[engine.engine] = _usable_engine(engine)
    wanted: dict[ModelName, Wanted] = {}
    for one in document.wanted[:MAX_WANTED]:
        if one.model not in wanted and _is_wanted(one):
            prefixes = one.prefixes[:MAX_WANTED_PREFIXES]
            wanted[one.model] = replace(one, prefixes=prefixes, yours=min(one.yours, one.count))
    withheld = document.withheld if _is_word(document.withheld, REASON_CHARACTERS) else Withheld.UNKNOWN
    return replace(
        document, engines=tuple(engines.values()), wanted=tuple(wanted.values()), withheld=withheld
    )


def _usable_engine(engine: EngineState) -> EngineState:
    replicas: dict[ModelName, ReplicaState] = {}
    for one in engine.replicas[:MAX_REPLICAS]:
        if one.replica.model not in replicas and _is_replica(one):
            replicas[one.replica.model] = one
    promises = tuple(one for one in engine.promises[: engine.slots] if _is_promise(one))
    kind, version = (text if _is_word(text) else "" for text in (engine.kind, engine.version))
    return replace(engine, kind=kind, version=version, replicas=tuple(replicas.values()), promises=promises)


def _is_engine(engine: EngineState) -> bool:
    return (
        engine.slots >= 1
        and 0 <= engine.in_flight <= MAX_SLOTS
        and 0 <= engine.yours <= MAX_SLOTS
        and 0 <= engine.foreign <= MAX_SLOTS
        and all(abs(seconds) <= LONGEST_S for seconds in engine.frees_in_s)
        and 0 <= (engine.cache_tokens or 0) <= MOST_TOKENS
        and _is_name(engine.engine)
    )


def _is_replica(state: ReplicaState) -> bool:
    rates = state.rates
    return (
        _is_model(state.replica.model)
        and _are_words(state.replica)
        and 0 <= (state.replica.context_tokens or 0) <= MOST_TOKENS
        and SLOWEST <= rates.prefill <= FASTEST
        and SLOWEST <= rates.decode <= FASTEST
        and 0.0 <= rates.beta <= MOST_BETA
        and 0.0 <= rates.load_s <= LONGEST_S
    )


def _is_promise(promise: Promise) -> bool:
    return _is_name(promise.origin) and 0.0 <= promise.for_s <= PROMISED_S


def _is_wanted(wanted: Wanted) -> bool:
    return (
        _is_model(wanted.model)
        and 1 <= wanted.count <= MOST_WAITING
        and wanted.yours >= 0
        and 0.0 <= wanted.prefill_tokens <= MOST_TOKENS
        and 0.0 <= wanted.decode_tokens <= MOST_TOKENS
        and 0.0 <= wanted.oldest_age_s <= LONGEST_S
    )


def _is_name(text: str) -> bool:
    return 0 < len(text) <= NAME_CHARACTERS and text.isprintable()


def _is_word(text: str, most: int = NAME_CHARACTERS) -> bool:
    return len(text) <= most and text.isprintable()


def _are_words(replica: Replica) -> bool:
    """Whether what names its content can be kept, compared and shown."""
    capabilities = replica.capabilities or ()
    return (
        all(_is_word(one, CONTENT_CHARACTERS) for one in (replica.identity, replica.facts))
        and len(capabilities) <= MAX_CAPABILITIES
        and all(map(_is_word, (replica.called or "", *capabilities)))
    )


def _is_model(text: str) -> bool:
    """Whether it can be a model's name: a path upwards or a URL is one that somebody hopes is opened."""
    return _is_name(text) and ".." not in text.split("/") and "://" not in text

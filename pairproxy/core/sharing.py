"""This node as the owner of slots that several origins want: who gets the next one, and who is told.

Own clients come first: a slot that the plan of this node uses is not promised. But a guest that got nothing
for STARVING_S gets the next free slot before them, and then has to wait as long again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from pairproxy.core.documents import PROTOCOL, EngineReport, EngineState, StateDocument, Wanted
from pairproxy.core.knowledge import Knowledge
from pairproxy.core.local import Told
from pairproxy.core.models import EngineId, NodeId, Place, Request
from pairproxy.core.promises import Wish

STARVING_S: Final = 5.0  # half of what a request may starve at most: the next slot has to come free, too
ALONE_S = 10.0  # after so long without another, an origin that uses an engine need not ask for its slots
GRACE_S: Final = 0.05  # a document that was written before its reader heard a promise says nothing about it


class Sharing:
    """Keeps the promises of this node (Knowledge.promises) in step with what happens."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knows = knowledge
        self._book = knowledge.promises
        self._waited: dict[EngineId, dict[NodeId, float]] = {}  # who waited for such a one, and when
        self._users: dict[EngineId, set[NodeId]] = {}  # of those that others use, too
        self._is_alone = True
        self._is_wanted = False  # whether any peer says that it waits
        self._given: Counter[NodeId] = Counter()  # promises since its last document
        self._asking: set[tuple[EngineId, NodeId]] = set()  # readers that were told to ask
        self._wanting: set[NodeId] = set()  # whose last document said that something waits there
        self._met: set[NodeId] = set()  # who was heard for the first time, in the last event
        self.pressing: set[NodeId] = set()  # who should hear of the last event at once

    def hear(self, document: StateDocument, at: float, *, is_new: bool, is_new_life: bool) -> None:
        """A peer told what it waits for."""
        self._given.pop(document.node, None)
        self._wanting.discard(document.node)
        if document.wanted:
            self._wanting.add(document.node)
        if is_new:
            self._met.add(document.node)
        if is_new_life:
            self._book.withdraw(document.node, made_before=at)
        elif not document.wanted:
            self._book.withdraw(document.node, made_before=at - GRACE_S)
        for report in self._knows.local.reports():
            models = _models(report)
            if any(wanted.model in models for wanted in document.wanted):
                self._waited.setdefault(report.engine, {})[document.node] = at

    def used(self, engine: EngineId, request: Request, at: float) -> None:
        """A guest's request took a slot."""
        if request.origin is not None:
            tokens = request.prompt_tokens + self._knows.local.costs.expected_output(request)
            self._book.use(engine, request.origin, tokens, at)

    def before_plan(self, at: float) -> None:
        """Let promises lapse, or take them back for want of slots; keep slots where a guest starves.

        Before the plan: what is taken back is then free for our own clients.
        """
        if self.pressing or self._met:
            self.pressing, self._met = self._met, set()  # they do not know yet that they have to ask
        # Nobody to share with: so it is at most nodes at most events.
        self._is_alone = self._knows.nodes.is_empty and self._book.is_empty and not self._asking
        if self._is_alone:
            return
        if not self._book.is_empty:
            self._book.lapse(at)
        self._users = self._shared(at)
        if self._wanting:
            self._wanting &= {document.node for document, _ in self._knows.nodes.documents(at)}
        self._is_wanted = len(self._wanting) > 0
        if not self._is_wanted and not self._book.has_any:
            return
        for report in self._knows.local.reports():
            self._promise(report, self._free(report), [], at)
            starving = [wish for wish in self._wishes(report, at) if self._is_starving(wish, at)]
            if starving:
                free = min(self._free(report), self._book.count(report.engine) + 1)
                self._promise(report, free, starving, at, is_firm=True)

    def after_plan(self, at: float) -> None:
        """Promise what our own clients left."""
        if self._is_alone:
            return
        if self._is_wanted or self._book.has_any:
            for report in self._knows.local.reports():
                free = self._free(report)
                self._promise(report, free, self._wishes(report, at) if free else [], at)
        told = {
            (engine, node)
            for engine, users in self._users.items()
            for node in users
            if self._asks(engine, node, at)
        }
        if told != self._asking:
            self.pressing.update(node for _, node in told - self._asking)
            self._asking = told
        if self._knows.asking.places:
            self.pressing |= self._knows.asking.asked(at)
        self.pressing.discard(self._knows.own)

    def document(
        self,
        reader: NodeId,
        epoch: str,
        sequence: int,
        name: str,
        at: float,
        told: Told = None,
    ) -> StateDocument:
        """What this node publishes about itself to one peer. ``told``: see LocalEngines.states."""
        knows, local = self._knows, self._knows.local
        return StateDocument(
            node=knows.own,
            name=name,
            protocol=PROTOCOL,
            epoch=epoch,
            sequence=sequence,
            is_draining=knows.is_draining or bool(local.withheld),
            waiting=len(knows.queue),
            engines=self.publish(reader, at, told),
            wanted=self.wanted(reader, at),
            catalogue=knows.rights.catalogue(local.catalogue(), reader).content,
            withheld="" if knows.is_draining else local.why_nothing,
        )

    def publish(self, reader: NodeId, at: float, told: Told) -> tuple[EngineState, ...]:
        """The engines as the document for ``reader`` shows them, with who gets their next slots.

        ``told``: see LocalEngines.states.
        """
        knows = self._knows
        states = (
            replace(
                state,
                promises=self._book.promises(state.engine, at),
                asks=self._asks(state.engine, reader, at),
            )
            for state in knows.local.states(knows.running, reader, at, told)
        )
        return knows.rights.seen(states, reader, knows.slots_left(reader))

    def wanted(self, reader: NodeId, at: float) -> tuple[Wanted, ...]:
        """What waits here, as the document for ``reader`` says it."""
        knows = self._knows
        waiting = knows.asking.wanted(knows.queue, reader, knows.local.costs.expected_output, at)
        return tuple(knows.rights.told(one, reader) for one in waiting if knows.may_know(reader, one.model))

    def _asks(self, engine: EngineId, reader: NodeId, at: float) -> bool:
        """Whether ``reader`` has to ask: not if it alone uses the engine, nor if we would not hear it."""
        age_s = self._knows.nodes.age(reader, at)
        if age_s is None or age_s >= self._knows.rules.stale_s:
            return False
        return self._users.get(engine) != {reader}

    def _shared(self, at: float) -> dict[EngineId, set[NodeId]]:
        """The users of each engine that another node uses, used, or waits for; most often of none."""
        own, running = self._knows.own, self._knows.running
        places: Iterable[Place] = self._knows.local.slots()
        if self._asking:
            places = {*places, *(Place(own, engine) for engine, _ in self._asking)}
        return {
            place.engine: self._users_of(place, at)
            for place in places
            if self._waited.get(place.engine) or running.has_guests(place)
        }

    def _users_of(self, place: Place, at: float) -> set[NodeId]:
        """Who used an engine of this node, or waited for such a one, in the last ALONE_S."""
        own, engine = self._knows.own, place.engine
        users = {who or own for who in self._knows.running.users(place, at, ALONE_S)}
        waited = self._waited.get(engine)
        if waited:
            recent = {node: last for node, last in waited.items() if at - last < ALONE_S}
            self._waited[engine] = recent
            users.update(recent)
        return users

    def _free(self, report: EngineReport) -> int:
        local, is_draining = self._knows.local, self._knows.is_draining
        held = self._knows.running.count(Place(self._knows.own, report.engine))
        return 0 if is_draining or local.withheld else max(local.offered(report) - held, 0)

    def _promise(
        self, report: EngineReport, free: int, wishes: list[Wish], at: float, *, is_firm: bool = False
    ) -> None:
        newly = self._book.promise(report.engine, free, wishes, at, is_firm=is_firm)
        self._given.update(newly)
        self.pressing.update(newly)

    def _is_starving(self, wish: Wish, at: float) -> bool:
        return self._book.unserved_s(wish.origin, wish.waited_s, at) > STARVING_S

    def _wishes(self, report: EngineReport, at: float) -> list[Wish]:
        """Who wants a slot of an engine: those who asked for it, else those who wait for its model.

        Where just one waits for the model nobody has to be kept from its slots.
        """
        wishes = [*self._all_wishes(report, at)]
        asked = [wish for wish in wishes if wish.has_asked]
        if asked:
            return asked
        origins = {wish.origin for wish in wishes}
        return wishes if len(origins) > 1 or self._has_own(report) else []

    def _has_own(self, report: EngineReport) -> bool:
        models = _models(report)
        return any(waiting.request.model in models for waiting in self._knows.queue)

    def _all_wishes(self, report: EngineReport, at: float) -> Iterator[Wish]:
        models = _models(report)
        for document, age_s in self._knows.nodes.documents(at):
            if age_s >= self._knows.rules.stale_s:
                continue
            given, rights = self._given[document.node], self._knows.rights
            left = self._knows.slots_left(document.node)
            for wanted in document.wanted:
                count = (wanted.yours or wanted.count) - given
                if left is not None:
                    count = min(count, left)
                if count > 0 and wanted.model in models and rights.may_use(document.node, wanted.model):
                    yield Wish(
                        origin=document.node,
                        count=count,
                        waited_s=wanted.oldest_age_s + age_s,
                        tokens=(wanted.prefill_tokens + wanted.decode_tokens) / wanted.count,
                        has_prefix_here=any(
                            self._knows.local.prefixes.matched(report.engine, wanted.model, (half,))
                            for half in wanted.prefixes
                        ),
                        has_asked=wanted.yours > 0,
                    )


def _models(report: EngineReport) -> set[str]:
    return {replica.model for replica, _ in report.replicas}

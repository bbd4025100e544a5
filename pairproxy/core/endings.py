"""What an attempt's end means: its slot, what it teaches, and whether the request goes round again."""

from dataclasses import replace

from pairproxy.core.commands import BreakOff, Command, Refuse
from pairproxy.core.continuing import final_error, rest_of
from pairproxy.core.documents import StateDocument
from pairproxy.core.errors import (
    Moved,
    NodeGone,
    NotServed,
    PairproxyError,
    QueueTimeout,
    ReplyTruncated,
    SlotsTaken,
    Unreachable,
    UpstreamBusy,
)
from pairproxy.core.events import AttemptFailed, AttemptFinished, EngineSettled, ReplyBroken, RequestAbandoned
from pairproxy.core.knowledge import Knowledge, stopping
from pairproxy.core.models import AttemptId, NodeId, Outcome, Place
from pairproxy.core.queue import Waiting
from pairproxy.core.running import Running


class Endings:
    """Takes in the ends of attempts and of requests."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knows = knowledge

    def abandoned(self, event: RequestAbandoned) -> None:
        """The client left, in the queue or in the middle of an attempt."""
        knows = self._knows
        knows.queue.remove(event.request)
        knows.chains.ended(event.request, event.at)
        knows.served.pop(event.request, None)
        running = knows.running.of_request(event.request)
        if running is not None:
            knows.avoidance.left(running.place)
            self._release(running, event.settled)

    def begun(self, running: Running) -> None:
        """A reply begins: an engine of this node has read the prompt, and keeps it."""
        if running.place.node == self._knows.own and running.request.is_streaming:
            self._keep(running)

    def finished(self, event: AttemptFinished, running: Running) -> None:
        """A reply ended; a good one teaches lengths, and speeds if it was made here."""
        knows = self._knows
        if running.is_settling:
            return
        knows.served.pop(event.attempt.request, None)
        usage = event.usage
        knows.chains.ended(event.attempt.request, event.at, usage.output_tokens or 0)
        if event.outcome is Outcome.DONE:
            if running.request.begun is None:  # the rest of a reply says nothing of how long replies are
                knows.local.costs.learn_output(running.request, usage.output_tokens or 0)
            if running.place.node == knows.own:
                if not running.request.is_streaming or running.first_byte_at is None:
                    self._keep(running)  # else that was done when it began
                engine, asked = running.place.engine, running.request
                knows.local.prefixes.learn(engine, running.held_blocks, asked.prompt_tokens, usage)
            if running.place.node == knows.own and running.first_byte_at is not None:
                knows.local.finished(running, usage, event.at)
        if event.outcome is Outcome.TRUNCATED:
            self._blame(running.place, ReplyTruncated("A reply broke off there."), event.at)
        else:
            knows.avoidance.forgive(running.place)
        self._release(running, event.settled)

    def failed(self, event: AttemptFailed) -> list[Command]:
        """An attempt failed before its first byte: the request waits again, or is refused."""
        knows = self._knows
        ended = self._taken(event.attempt, event.settled)
        if ended is None:
            return []
        running, waiting = ended
        if isinstance(event.error, Moved):
            self._move(waiting, running.place)
            return []
        self._blame(running.place, event.error, event.at)
        waiting.last_error = event.error
        if self._goes_round(waiting, running.place, event.error, event.at):
            knows.queue.put_back(waiting)
            return []
        knows.chains.ended(event.attempt.request, event.at)
        return [Refuse(waiting.request.id, final_error(waiting.request, event.error))]

    def broken(self, event: ReplyBroken) -> list[Command]:
        """A reply lost its node in the middle: the rest of it waits for another, or the request is over."""
        knows = self._knows
        ended = self._taken(event.attempt, event.settled)
        if ended is None:
            return []
        running, waiting = ended
        error = ReplyTruncated("The node that was answering was lost. Send the request again.")
        self._blame(running.place, error, event.at)
        waiting.last_error = error
        rest = rest_of(waiting.request, running.replica, event.delivered_tokens)
        waiting.go_back()  # where it was taken back from nothing failed
        waiting.failures += 1
        waiting.avoid(running.place)
        if rest is not None and waiting.failures < knows.rules.attempts:
            waiting.request, waiting.waits_from = rest, event.at
            if knows.has_place(waiting, event.at):
                knows.queue.put_back(waiting)
                return []
        knows.chains.ended(event.attempt.request, event.at)
        return [Refuse(waiting.request.id, error)]

    def overdue(self, at: float) -> list[Refuse]:
        """Refuse what waited too long."""
        if not len(self._knows.queue):
            return []
        knows, refused = self._knows, []
        late = knows.queue.take_overdue(at, knows.place_finder(at), knows.trouble_finder(at))
        for waiting in late:
            knows.chains.ended(waiting.request.id, at)
            error = waiting.last_error
            is_gone = waiting.nowhere_since is not None and isinstance(error, Unreachable)
            if error is None or is_gone or waiting.troubled_since is not None:
                error = stopping() if knows.queue.is_closed else self._too_late(waiting, at)
            refused.append(Refuse(waiting.request.id, final_error(waiting.request, error)))
        return refused

    def _too_late(self, waiting: Waiting, at: float) -> QueueTimeout:
        why = "no slot came free for"
        if waiting.nowhere_since is not None or isinstance(waiting.last_error, Unreachable):
            why = "no node answers that has"
        elif waiting.troubled_since is not None:
            why = "every engine is full that has"
        sentence = f"Waited {at - waiting.arrived_at:.0f} s and {why} {waiting.request.model}."
        return QueueTimeout(sentence, retry_after_s=self._knows.retry_after(at))

    def _goes_round(self, waiting: Waiting, place: Place, error: PairproxyError, at: float) -> bool:
        """Whether a request of a client may be tried again, and where not.

        "Not now" costs none of its tries. Where nothing answers at the only place it may come back: an engine
        that is started anew.
        """
        knows = self._knows
        if waiting.request.origin is not None or not error.may_retry:
            return False
        if not isinstance(error, SlotsTaken):
            waiting.go_back()
        if not isinstance(error, SlotsTaken | UpstreamBusy):
            others = knows.pricing.places(waiting.request, waiting.excluded | {place}, at)
            if isinstance(error, Unreachable) and not others:
                return knows.pricing.is_known(waiting.request)
            waiting.failures += 1
            waiting.avoid(place)
        knows.let_go_back(waiting, at)
        if waiting.failures >= knows.rules.attempts or not knows.has_place(waiting, at):
            return False
        if waiting.failures == knows.rules.attempts - 1:
            self._bring_home(waiting, at)
        return True

    def _bring_home(self, waiting: Waiting, at: float) -> None:
        """Let the last try be made here, if it can be: whoever else fails, this machine is here."""
        places = self._knows.pricing.places(waiting.request, waiting.excluded, at)
        if any(place.node == self._knows.own for place, _ in places):
            waiting.request = replace(waiting.request, local_only=True)

    def _blame(self, place: Place, error: PairproxyError, at: float) -> None:
        is_own = place.node == self._knows.own
        if isinstance(error, NotServed):
            return
        if not is_own or isinstance(error, UpstreamBusy | Unreachable):
            self._knows.avoidance.blame(place, error, at, is_own=is_own)

    def _move(self, waiting: Waiting, left: Place) -> None:
        """It waits again, for another place; nobody failed."""
        waiting.moves += 1
        waiting.avoid(left, is_left=True)
        self._knows.queue.put_back(waiting)

    def restarted(self, document: StateDocument) -> list[Command]:
        """A node lives anew: what it ran for us in its last life is broken off at once.

        As many of the latest attempts as it says to run for us came to the new life.
        """
        there = sorted(self._knows.running.at_node(document.node), key=lambda one: one.dispatched_at)
        alive = sum(engine.yours for engine in document.engines)
        error = NodeGone("The node was restarted.")
        return [BreakOff(one.attempt, error) for one in there[: max(len(there) - alive, 0)]]

    def lost(self, node: NodeId) -> list[Command]:
        """Nothing is heard of a node any more: what it ran for us is broken off."""
        error = NodeGone("The node stopped answering.")
        return [BreakOff(running.attempt, error) for running in self._knows.running.at_node(node)]

    def settled(self, event: EngineSettled) -> None:
        """An engine is free of what was given up."""
        running = self._knows.running.get(event.attempt)
        if running is not None and running.is_settling:
            self._knows.running.remove(event.attempt)

    def _taken(self, attempt: AttemptId, settled: bool) -> tuple[Running, Waiting] | None:
        """An attempt that ended and its request, its slot given back; None: it was over already."""
        running = self._knows.running.get(attempt)
        if running is None or running.is_settling:
            return None
        self._release(running, settled)
        return running, self._knows.served.pop(attempt.request)

    def _keep(self, running: Running) -> None:
        request = running.request
        self._knows.local.prefixes.insert(running.place.engine, request.model, request.prefix)

    def _release(self, running: Running, settled: bool) -> None:
        if settled or running.place.node != self._knows.own:
            self._knows.running.remove(running.attempt)  # a peer's slot is its owner's to count
        else:
            self._knows.running.settle(running)

"""An attempt that is silent: when that says that its engine is stuck, and when the request goes elsewhere.

A healthy engine is silent while it loads a model, reads a prompt, or writes a call of a tool, which most show
only when it is whole; and all the while where a reply comes in one piece. Silence alone proves nothing, and
there is no limit to the whole of a reply. So before its first byte an attempt is given up only where all of
this is true, and the request then loses nothing but time that it would have lost anyway:

- it is streamed, and has been silent for ``stuck_s`` and for TIMES as long as it should have taken to begin
  (where tools are offered: to write the longest reply); nothing else began or ended at its engine meanwhile;
- the node does not say that the model is still being loaded, or that has lasted LOADING_S;
- another place is free for the request now, is not avoided, and should have done all of it in less time than
  was spent in silence. The only place is waited for, as a client of its own would wait.

An engine that does not answer the questions of its own node either is given ``gone_s`` in place of
``stuck_s``, and its model is not believed to be loading. It is not given less than TIMES what is expected: a
server that can do one thing at a time answers nothing while it is at work.

After the first byte no other node can answer; the proxy ends such a stream (proxy.watching), after the time
that is reckoned here.
"""

from collections.abc import Iterable
from typing import Final

from pairproxy.core.commands import BreakOff
from pairproxy.core.errors import NodeGone
from pairproxy.core.knowledge import Knowledge
from pairproxy.core.models import AttemptId, Candidate, Place, Rates, Request
from pairproxy.core.running import Running

TIMES = 4.0  # as long as expected: prompts are guessed to a factor of two, speeds under foreign load as well
LOADING_S: Final = 600.0  # 200 GB from a slow disk; Ollama itself gives up after five minutes
LONGEST_TOKENS: Final = 8192  # of a reply where neither the request nor the engine sets a limit: a long file
LOOK_S: Final = 5.0  # between two looks at what is overdue: whether another place has become free
MOST_PLACES: Final = 1024  # whose last sign of life is remembered; a cluster has tens


class Silence:
    """Owner of the rule. Remembers when each place gave its last sign of life."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knows = knowledge
        self._signs: dict[Place, float] = {}
        self._given_up: set[AttemptId] = set()  # told, but not over yet
        self._next: float | None = None

    def next_look(self) -> float | None:
        """When it has to be looked at again, if nothing happens before; None: nothing is silent."""
        return self._next

    def heard(self, running: Running, at: float) -> None:
        """A reply began or ended."""
        self._signs[running.place] = at
        if len(self._signs) > MOST_PLACES:
            del self._signs[min(self._signs, key=self._signs.__getitem__)]

    def quiet_s(self, request: Request, pick: Candidate, rates: Rates) -> float:
        """Seconds of silence in the middle of a stream after which it does not go on any more."""
        return max(self._knows.rules.quiet_s, TIMES * self._call_s(request, pick, rates))

    def begins_s(self, request: Request, pick: Candidate, rates: Rates) -> float:
        """Seconds in which its first byte is to be expected: after all of it, where it may be a call."""
        return pick.load_s + pick.prefill_s + self._call_s(request, pick, rates)

    def look(self, at: float) -> list[BreakOff]:
        """Give up what is stuck and can be done elsewhere; call it after the plan."""
        self._next = None
        knows = self._knows
        if knows.is_alone or knows.is_draining:
            return []  # there is no other place, or nothing is sent to it any more
        if self._given_up:
            self._given_up = {attempt for attempt in self._given_up if self._is_silent(attempt)}
        overdue, soonest_s = [], min(knows.rules.gone_s, knows.rules.stuck_s)
        for silent in knows.running.silent():
            for one in silent:
                end = self._since(one) + soonest_s
                if end > at:  # most begin before that, and need no closer look, nor do those sent after it
                    self._wake(end)
                    break
                end = self._since(one) + self._patience_s(one)
                if end <= at:
                    overdue.append(one)
                self._wake(end if end > at else at + LOOK_S)
        if self._given_up:
            return []  # its place elsewhere is not taken yet
        if not overdue:
            return []
        overdue.sort(key=lambda one: one.dispatched_at)
        stuck = [one.attempt for one in overdue if self._could_be_done_elsewhere(one, at)][:1]
        self._given_up.update(stuck)
        error = NodeGone("The engine gave no sign of life, and another node had time.")
        return [BreakOff(attempt, error) for attempt in stuck]

    def is_up(self, place: Place) -> bool:
        """Whether an engine answers the questions of its node, as far as is known."""
        if place.node == self._knows.own:
            return self._knows.local.get(place.engine) is not None
        return self._knows.nodes.epoch(place.node) is None or self._knows.nodes.engine(place) is not None

    def _is_silent(self, attempt: AttemptId) -> bool:
        one = self._knows.running.get(attempt)
        return one is not None and one.first_byte_at is None and not one.is_settling

    def _since(self, one: Running) -> float:
        return max(one.dispatched_at, self._signs.get(one.place, one.dispatched_at))

    def _patience_s(self, one: Running) -> float:
        rules = self._knows.rules
        if not self.is_up(one.place):
            return max(rules.gone_s, TIMES * one.begins_s)
        patience_s = max(rules.stuck_s, TIMES * one.begins_s)
        return max(patience_s, LOADING_S) if self._is_loading(one) else patience_s

    def _call_s(self, request: Request, pick: Candidate, rates: Rates) -> float:
        """Seconds for the longest call of a tool that it can give, with all of its company; 0.0: for none."""
        if "tools" not in request.needs:
            return 0.0
        replica = self._knows.pricing.replica(pick.place, request.model)
        window = replica.context_tokens if replica is not None else None
        most = request.max_output_tokens or window or LONGEST_TOKENS
        return most / (rates.decode * rates.share(pick.slots))

    def _is_loading(self, one: Running) -> bool:
        """Whether its node says that the model is not in memory yet."""
        known = self._knows.nodes.engine(one.place)
        if known is not None:
            states: Iterable[tuple[str, bool]] = (
                (state.replica.model, state.is_loaded) for state in known[0].replicas
            )
        else:
            report = self._knows.local.get(one.place.engine) if one.place.node == self._knows.own else None
            states = ((replica.model, loaded) for replica, loaded in (report.replicas if report else ()))
        return not all(is_loaded for model, is_loaded in states if model == one.request.model)

    def _could_be_done_elsewhere(self, one: Running, at: float) -> bool:
        """Whether another place is free that should have done all of it in the time of the silence."""
        knows, waiting = self._knows, self._knows.served.get(one.attempt.request)
        if waiting is None or waiting.failures + 1 >= knows.rules.attempts:
            return False
        excluded = waiting.excluded | {one.place}
        occupancies = knows.pricing.occupancies(at)
        others = knows.pricing.candidates(one.request, excluded, occupancies, at)
        silent_s = at - one.dispatched_at
        return any(
            other.is_free and other.service_s <= silent_s and not knows.avoidance.is_avoided(other.place, at)
            for other in others
        )

    def _wake(self, at: float) -> None:
        self._next = at if self._next is None else min(self._next, at)

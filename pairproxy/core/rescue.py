"""Stragglers: what runs on a slower node is taken back, and begun anew on a faster one that is idle.

With lengths unknown a slow node can always draw a very long reply, and then everybody waits for it while the
fast node has nothing left to do. A reply of which nothing was delivered yet can be begun again there, and no
client sees more than its one reply.

Why a burst so ends no later than on its fastest node F alone, if F has one slot: F did everything else, and
then this one; alone it would have had to do this one as well. In full: alone, F needs W, the sum of what all
requests take there. Together, F is busy with those that it does to the end (only they are begun there, and
nothing is taken from the fastest), and idle only while nothing waits. Idle it may be for as long as it would
have needed for what others have done to the end, its credit; at the end of that the longest straggler is
moved to it, whatever is to be expected. Each request is done to the end once, so busy and idle time together
never exceed W; and until the burst is over F is one or the other. It holds as long as

- no other origin uses F, and F's speed is what it is believed to be;
- a straggler may be moved: of a reply that has begun to come, of one that was moved MOST_MOVES times, and of
  one beyond what may be wasted, the end is waited for where it is.

Of several slots none is F: a long reply that begins last has less company than it would have had from the
start, but may end later than it would have. Stragglers are moved there only if that is expected to be worth
it, and what is sent to a slower node in the first place is what core.risk allows.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pairproxy.core.bursts import Burst
from pairproxy.core.commands import BreakOff
from pairproxy.core.dialects import routes
from pairproxy.core.errors import Moved
from pairproxy.core.knowledge import Knowledge
from pairproxy.core.models import AttemptId, Candidate, Place, Request
from pairproxy.core.occupancies import Occupancies
from pairproxy.core.running import Running

LOOK_S: Final = 0.5  # between two looks while nothing happens: what is left to do there grows as it goes on
SAVES_PART: Final = 0.1  # of the rest, at least (docs/scheduling.md: what was tried)
SAVES_S: Final = 2.0  # and so many seconds: less is within what lengths and speeds are known to
MOST_MOVES: Final = 2  # of one request: to a faster node, and from there to the fastest
WASTED_PART: Final = 0.1  # of what a burst has written so far may be for nothing ...
WASTED_TOKENS = 2000.0  # ... beside this: a few usual replies, or a small burst could never be helped
PATIENCE_PART = 0.5  # of what a request may wait: later it has to end where it is, the queue would refuse it
LEAST_S: Final = 0.01  # two looks are never closer: rounding must not make the daemon spin


@dataclass(frozen=True, slots=True)
class Move:
    """A straggler that could be done sooner elsewhere. Seconds from now."""

    running: Running
    to: Place
    rest_s: float  # until it is expected to end where it is
    anew_s: float  # until it would end there, begun now
    due_s: float  # until the fastest place has been idle for as long as it may be

    @property
    def saves_s(self) -> float:
        """Seconds by which it is expected to end sooner; negative where it would end later."""
        return self.rest_s - self.anew_s


class Rescue:
    """Owner of the rule. Changes nothing but what it remembers of moves and of idle places."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knows = knowledge
        self._bursts = knowledge.pricing.bursts
        self._under_way: AttemptId | None = None  # broken off, but not over yet
        self._idle: set[Place] = set()  # places that had a free slot at the last look
        self._looked_at = 0.0
        self._next: float | None = None

    def next_look(self) -> float | None:
        """When it has to be looked at again, if nothing happens before; None: there is no candidate."""
        return self._next

    def finished(self, running: Running, output_tokens: int) -> None:
        """Note what a place has done for a burst. Call it before the attempt is forgotten."""
        if running.request.origin is None:
            burst = self._bursts.find(running.request)
            if burst is not None:
                prompts, replies = burst.done.get(running.place, (0, 0))
                burst.done[running.place] = prompts + running.request.prompt_tokens, replies + output_tokens

    def look(self, at: float) -> list[BreakOff]:
        """Take back the straggler for which it is worth most, if there is one; call it after the plan."""
        self._next = None
        knows = self._knows
        is_waiting = len(knows.queue) > 0
        if is_waiting:
            for waiting in knows.queue:
                if knows.let_go_back(waiting, at):
                    self._next = at + LOOK_S
        stragglers = []
        if not is_waiting and not knows.is_alone and self._may_move() and not self._is_under_way():
            stragglers = [one for one in knows.running.to_begin() if self._may_be_moved(one, at)]
        if not stragglers:
            self._idle.clear()
            return []
        self._bursts.update(())
        self._note_idle(stragglers, at)
        could_move, occupancies = self._could_move(stragglers), knows.pricing.occupancies(at)
        moves = [move for one in could_move for move in self._moves(one, occupancies, at)]
        if moves:
            due_s = min((move.due_s for move in moves if move.due_s > 0.0), default=LOOK_S)
            self._next = at + min(LOOK_S, max(due_s, LEAST_S))
        worth = [move for move in moves if self._is_worth(move)]
        return [self._take_back(max(worth, key=lambda move: move.saves_s))] if worth else []

    def _may_move(self) -> bool:
        return self._knows.rules.is_rescuing and not self._knows.is_draining

    def _is_under_way(self) -> bool:
        """Whether one is taken back right now: its slot there must not be given away twice."""
        running = self._knows.running.get(self._under_way) if self._under_way is not None else None
        if running is None or running.is_settling or running.first_byte_at is not None:
            self._under_way = None
        return self._under_way is not None

    def _may_be_moved(self, running: Running, at: float) -> bool:
        request = running.request
        waiting = self._knows.served.get(request.id)
        return (
            waiting is not None
            and not (request.is_load or request.unloads or routes.is_embedding(request.path))
            and waiting.moves < MOST_MOVES
            and at - waiting.arrived_at < PATIENCE_PART * self._knows.rules.queue_timeout_s
            and self._knows.chains.of(request.id) is None  # its plan moves it between steps
        )

    def _note_idle(self, stragglers: list[Running], at: float) -> None:
        """Credit bursts with the time for which a place had nothing else to do for them."""
        bursts = {id(burst): burst for one in stragglers if (burst := self._bursts.find(one.request))}
        for burst in bursts.values():
            for place in self._idle:
                burst.idle_s[place] = burst.idle_s.get(place, 0.0) + at - self._looked_at
        slots = self._knows.pricing.slots
        self._idle = {place for place in slots.places() if slots.is_free(place, at)}
        self._looked_at = at

    def _could_move(self, stragglers: list[Running]) -> list[Running]:
        """Those that run slower than they would at a place that is free now: most often none, by a look."""
        pricing = self._knows.pricing
        rates = {
            model: {place: pricing.rates(place, model).decode for place in self._idle}
            for model in {one.request.model for one in stragglers}
        }
        return [
            one
            for one in stragglers
            if any(
                rate > one.rates.decode and place != one.place
                for place, rate in rates[one.request.model].items()
            )
        ]

    def _moves(self, running: Running, occupancies: Occupancies, at: float) -> Iterator[Move]:
        """Where else it could be done: at the faster place where it would end first, if that is free.

        And at the fastest of all, if that is free.
        """
        knows, request = self._knows, running.request
        burst = self._bursts.find(request)
        if burst is None or not burst.is_fan_out or self._others_wait(request, at):
            return
        slowest = running.rates.decode  # company leaves; what is faster in company only is no fast node
        excluded = knows.served[request.id].excluded | {running.place}
        lengths, limit = knows.pricing.lengths(request), request.max_output_tokens
        done, mean = running.tokens_by_now(), lengths.mean(limit)
        left = lengths.remaining(done, limit)
        rest_s = self._rest_s(running, left, at)
        whole_s = self._whole_s(running, mean)
        anew = [
            (_anew_s(one, done + left, mean), one)
            for one in knows.pricing.candidates(request, excluded, occupancies, at)
            if _anew_s(one, mean, mean) < whole_s
            and knows.pricing.rates(one.place, request.model).decode > slowest
        ]
        if not anew:
            return
        fastest = min(anew, key=lambda pair: pair[0])
        if limit is not None and (limit - done) / self._rate(running) <= _anew_s(fastest[1], done, mean):
            return  # its limit ends it here before it could be as long as it is there
        for anew_s, one in (fastest, min(anew, key=lambda pair: pair[1].wait_s + pair[0])):
            if one.is_free and not knows.avoidance.is_avoided(one.place, at):
                due_s = math.inf
                if one is fastest[1] and one.slots == 1:
                    due_s = self._credit_s(burst, one, request) - burst.idle_s.get(one.place, 0.0)
                yield Move(running, one.place, rest_s, anew_s, due_s)

    def _others_wait(self, request: Request, at: float) -> bool:
        """Whether another origin has use for such a slot: what waits goes before what runs."""
        documents = self._knows.nodes.fresh(at)
        return any(wanted.model == request.model for document in documents for wanted in document.wanted)

    def _whole_s(self, running: Running, mean: float) -> float:
        return running.reads_s + mean / self._rate(running)

    def _rest_s(self, running: Running, left: float, at: float) -> float:
        load_s = running.rates.load_s if running.was_cold else 0.0
        reading_s = max(load_s + running.reads_s - (at - running.dispatched_at), 0.0)
        return reading_s + left / self._rate(running)

    def _rate(self, running: Running) -> float:
        company = self._knows.running.count(running.place)
        return running.rates.decode * running.rates.share(company)

    def _credit_s(self, burst: Burst, one: Candidate, request: Request) -> float:
        """Seconds that a place would have needed for what others have done of its burst."""
        rates = self._knows.pricing.rates(one.place, request.model)
        done = [tokens for place, tokens in burst.done.items() if place != one.place]
        return sum([prompts / rates.prefill + replies / rates.decode for prompts, replies in done])

    def _is_worth(self, move: Move) -> bool:
        """Whether it is due, or saves enough, and not too much was for nothing already."""
        burst = self._bursts.of(move.running.request)
        written = sum(replies for _, replies in burst.done.values())
        wasted = burst.wasted_tokens + move.running.tokens_by_now()
        if wasted > WASTED_PART * written + WASTED_TOKENS:
            return False
        return move.due_s <= 0.0 or move.saves_s > max(SAVES_S, SAVES_PART * move.rest_s)

    def _take_back(self, move: Move) -> BreakOff:
        attempt = self._under_way = move.running.attempt
        burst = self._bursts.of(move.running.request)
        burst.wasted_tokens += move.running.tokens_by_now()
        self._idle.discard(move.to)
        expected = f"done there in {move.anew_s:.1f} s, here in {move.rest_s:.1f} s"
        return BreakOff(attempt, Moved(f"Moved to {move.to.node}: {expected}."))


def _anew_s(one: Candidate, tokens: float, mean: float) -> float:
    """Seconds for a reply of so many tokens; the candidate is priced for one of the mean length."""
    return one.load_s + one.prefill_s + one.decode_s * tokens / max(mean, 1.0)

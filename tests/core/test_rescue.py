"""Conversations about stragglers: what is taken back from a slow node, and what is left there."""

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pairproxy.core import rescue
from pairproxy.core.commands import BreakOff, Command
from pairproxy.core.documents import StateDocument, Wanted
from pairproxy.core.errors import Moved, SlotsTaken, Unreachable
from pairproxy.core.experiments.measures import alone
from pairproxy.core.models import AttemptId, NodeId, Rates, Request, RequestId
from pairproxy.core.queue import NOWHERE_S
from pairproxy.core.rescue import LOOK_S, MOST_MOVES
from pairproxy.core.rules import Rules
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimNode
from pairproxy.core.workloads.bursts import burst
from tests.core.told import FAST, A, B, M, Told, ask, document, refused, sent

MOVED = Moved("moved")
PEER = document(B, rates=FAST)


def whole(name: str, **facts: Any) -> Request:
    """A request whose reply comes in one piece, and is as long as it likes."""
    return replace(ask(name, limit=None, client="c", **facts), is_streaming=False)


class Hanging(Told):
    """Node A is slow, B fast; all of a burst is done but what A got."""

    def __init__(
        self,
        *,
        rules: Rules | None = None,
        request: Any = whole,
        has_begun: bool = False,
        waits: int = 0,
        credit: int = 0,
    ) -> None:
        super().__init__(rules=rules)
        self.hears(PEER)
        self.sequence = 1
        self.slow: list[str] = []
        self.fast: list[str] = []
        self.broken: list[BreakOff] = []
        self.others = waits
        for number in range(8):
            self.note(self.arrives(request(f"r{number}")))
        self.note(self.passes(0.1))
        assert self.slow
        if credit:
            self.note(self.finishes(self.slow.pop(), tokens=credit))
        if has_begun:
            self.begins(self.slow[0])
        while self.fast:
            self.at += 0.5
            self.note(self.finishes(self.fast.pop(), tokens=50))
            self.note(self.hears(self.news()))

    def note(self, commands: list[Command]) -> None:
        """Remember who went where, and who is taken back."""
        self.broken += [one for one in commands if isinstance(one, BreakOff)]
        for name, node in sent(commands):
            (self.slow if node == A else self.fast).append(name)

    def goes_on(self, seconds: float) -> list[BreakOff]:
        """Until something is taken back; B tells of itself each half second."""
        until = self.at + seconds
        while not self.broken and self.at < until:
            self.at += LOOK_S
            self.note(self.hears(self.news()))
        broken, self.broken = self.broken, []
        return broken

    def news(self) -> StateDocument:
        """B's document as it is now; so many requests wait there."""
        self.sequence += 1
        wanted = Wanted(M, self.others, 100.0, 100.0, 1.0)
        return replace(PEER, sequence=self.sequence, wanted=(wanted,) if self.others else ())


def test_a_straggler_is_taken_back_and_done_on_the_fast_node() -> None:
    """Its next attempt goes there at once, although its old engine still settles; nobody is blamed."""
    told = Hanging()
    (name,) = told.slow
    (broken,) = told.goes_on(60.0)
    assert (broken.attempt.request, type(broken.error)) == (name, Moved)
    assert sent(told.fails(name, MOVED, settled=False)) == [(name, B)]
    assert told.finishes(name, 2, tokens=900) == []
    told.settles(name)
    assert not told.scheduler.running
    assert sent(told.arrives(ask("next", local_only=True))) == [("next", A)]


def test_what_has_begun_to_come_is_never_taken_back() -> None:
    """Nor what streams, once its first byte is here; before that it is."""
    assert Hanging(has_begun=True).goes_on(300.0) == []

    streaming = Hanging(request=lambda name: replace(whole(name), is_streaming=True, prompt_tokens=5000))
    assert streaming.goes_on(300.0)


def test_what_its_limit_ends_sooner_where_it_is_stays() -> None:
    """However idle the fast node is."""
    told = Hanging(request=lambda name: replace(whole(name), max_output_tokens=60))
    assert told.goes_on(60.0) == []


def test_the_fast_node_may_idle_for_as_long_as_the_slow_one_saved_it_work() -> None:
    """Then it gets the straggler although little is to be gained, and no sooner."""
    told = Hanging(request=lambda name: replace(whole(name), max_output_tokens=170), credit=150)
    saved_s = 100 / FAST.prefill + 150 / FAST.decode
    idle_since = told.at
    assert told.goes_on(60.0)
    assert saved_s - LOOK_S <= told.at - idle_since <= saved_s + LOOK_S


def test_a_first_byte_at_the_moment_of_the_move_wins() -> None:
    """The reply is kept, and the next straggler may be moved."""
    told = Hanging()
    (name,) = told.slow
    assert told.goes_on(60.0)
    assert told.begins(name) == []
    assert told.finishes(name, tokens=900) == []
    assert not told.scheduler.running


@pytest.mark.parametrize("count", [1, 2])
def test_only_a_fan_out_has_stragglers(count: int) -> None:
    """One or two requests are waited for where they are."""
    told = Told()
    told.arrives(whole("r0"))
    for number in range(1, count):
        told.hears(PEER)
        told.arrives(whole(f"r{number}"))
    told.hears(replace(PEER, sequence=2))
    told.at += 100.0
    assert not [one for one in told.hears(replace(PEER, sequence=3)) if isinstance(one, BreakOff)]
    assert told.scheduler.next_wakeup(told.at) is None


def test_what_waits_at_another_origin_goes_before_what_runs() -> None:
    """A free slot is theirs while they want it."""
    told = Hanging(waits=1)
    assert told.goes_on(60.0) == []
    told.others = 0
    assert told.goes_on(60.0)


@pytest.mark.parametrize("rules", [Rules(rescue=False), Rules("least-busy")])
def test_a_person_may_turn_it_off(rules: Rules) -> None:
    """And a policy that does not compare seconds has none; then nothing is looked at in between."""
    told = Hanging(rules=rules)
    assert told.goes_on(300.0) == []
    assert told.scheduler.next_wakeup(told.at) is None


def test_it_is_looked_at_twice_a_second_while_there_is_a_straggler() -> None:
    """Without any news, and no longer than it is one."""
    told = Hanging(waits=1)
    assert told.scheduler.next_wakeup(told.at) is None
    told = Hanging(request=lambda name: replace(whole(name), max_output_tokens=150), credit=400)
    wakeup = told.scheduler.next_wakeup(told.at)
    assert wakeup is not None
    assert told.at < wakeup <= told.at + LOOK_S
    (name,) = told.slow
    told.finishes(name, tokens=900)
    assert told.scheduler.next_wakeup(told.at) is None


def test_a_request_whose_new_place_is_lost_goes_back_to_the_old_one() -> None:
    """The place that it was taken back from did nothing wrong; also while it waits."""
    told = Hanging()
    (name,) = told.slow
    assert told.goes_on(60.0)
    assert sent(told.fails(name, MOVED)) == [(name, B)]
    assert sent(told.fails(name, Unreachable("gone"), 2)) == [(name, A)]

    told = Hanging()
    (name,) = told.slow
    assert told.goes_on(60.0)
    assert told.loses(B) == []
    commands = told.fails(name, MOVED)
    commands += told.wakes()
    assert sent(commands) == [(name, A)]


def test_a_request_that_finds_the_new_slot_taken_waits_for_the_next_one_there() -> None:
    """To begin anew where it was would be the worst of both; and no try of its three is lost."""
    told = Hanging()
    (name,) = told.slow
    assert told.goes_on(60.0)
    assert sent(told.fails(name, MOVED)) == [(name, B)]
    assert sent(told.fails(name, SlotsTaken("taken"), 2)) == []
    told.passes(NOWHERE_S / 2)
    assert sent(told.hears(told.news())) == [(name, B)]


def test_nobody_is_moved_for_ever() -> None:
    """After MOST_MOVES a request ends where it is."""
    told = Hanging()
    (name,) = told.slow
    for number in range(1, MOST_MOVES + 1):
        (broken,) = told.goes_on(120.0)
        assert broken.attempt == AttemptId(RequestId(name), number)
        told.loses(B)
        told.fails(name, MOVED, number)
        assert refused(told.wakes()) == []
        told.note(told.hears(told.news()))
    assert told.goes_on(120.0) == []


SLOWER = st.tuples(st.sampled_from([0.15, 0.3, 0.5, 0.8]), st.sampled_from([1, 2, 4]))


@given(slower=st.lists(SLOWER, min_size=1, max_size=2), count=st.integers(3, 24), seed=st.integers(0, 999))
@example(slower=[(0.15, 4), (0.15, 4)], count=17, seed=999)
@settings(max_examples=60, deadline=None)
def test_a_burst_ends_no_later_than_on_its_fastest_node_alone(
    slower: list[tuple[float, int]], count: int, seed: int
) -> None:
    """Whatever its replies turn out to be: one slot there, lengths unknown, no limit to what is wasted."""
    fast = SimNode.of("fast", 1, Rates(3000.0, 100.0, 0.15), kind="llamacpp")
    nodes = [
        SimNode.of(f"slow{index}", slots, Rates(3000.0 * part, 100.0 * part, 0.3), kind="llamacpp")
        for index, (part, slots) in enumerate(slower)
    ]
    asked = burst(Random(seed), count, [NodeId("fast")])
    requests = [replace(one, is_streaming=False) for one in asked]
    best = alone([fast], requests, Rules(), seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rescue, "WASTED_TOKENS", math.inf)  # with it one burst in 250 waits for a straggler
        together = simulate([fast, *nodes], requests, Rules(), seed)
    assert together.makespan_s <= best.makespan_s * 1.02

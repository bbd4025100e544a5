"""Conversations about attempts that are silent: which of them are given up, and which never are."""

import math
from dataclasses import replace

import pytest

from pairproxy.core.commands import BreakOff, Command
from pairproxy.core.documents import StateDocument
from pairproxy.core.errors import NodeGone
from pairproxy.core.events import EngineLost, FirstByteReceived
from pairproxy.core.models import AttemptId, Rates, RequestId
from pairproxy.core.rules import Rules
from pairproxy.core.silence import LOADING_S, LONGEST_TOKENS, TIMES
from tests.core.told import FAST, GPU, SLOW, A, B, C, Told, ask, at, document, only_dispatch, sent

TOOLS = frozenset({"tools"})
STUCK_S, GONE_S, QUIET_S = Rules().stuck_s, Rules().gone_s, Rules().quiet_s


def broken_off(commands: list[Command]) -> list[str]:
    """Which requests' attempts are given up."""
    return [one.attempt.request for one in commands if isinstance(one, BreakOff)]


class Quiet(Told):
    """This node and B, which is faster and gets the first request; heartbeats come while time passes."""

    def __init__(self, *, speed: Rates | None = SLOW, rules: Rules | None = None, slots: int = 1) -> None:
        super().__init__(speed=speed, rules=rules)
        self.sequence = 0
        self.there = document(B, rates=FAST, slots=slots)
        self.beat()

    def beat(self) -> list[Command]:
        """A heartbeat of B."""
        self.sequence += 1
        return self.hears(replace(self.there, sequence=self.sequence))

    def until_broken_off(self, longest_s: float) -> float | None:
        """Let time pass with a heartbeat each second; when an attempt is given up, None: none is."""
        end = self.at + longest_s
        while self.at < end:
            self.at += 1.0
            if broken_off(self.beat()):
                return self.at
        return None


def test_a_stuck_engine_of_a_living_node_is_left_for_another() -> None:
    """F8: after a minute without a byte, and not before; the request goes to the other node."""
    told = Quiet()
    assert sent(told.arrives(ask("r"))) == [("r", B)]
    assert told.until_broken_off(300.0) == STUCK_S
    assert sent(told.fails("r", NodeGone("stuck"))) == [("r", A)]


def test_it_is_not_left_before_four_times_what_was_expected() -> None:
    """F8: 100,000 tokens take 100 s to read at B, so nothing is given up for 400 s."""
    told = Quiet(speed=FAST)
    told.there = document(B, rates=replace(FAST, prefill=1010.0))
    told.beat()
    assert sent(told.arrives(ask("r", prompt=100_000))) == [("r", B)]
    given_up_at = told.until_broken_off(1000.0)
    assert given_up_at is not None
    assert given_up_at == math.ceil(TIMES * 100_000 / 1010.0)


@pytest.mark.parametrize("why", ["whole", "guest", "alone", "busy", "slower", "draining", "last try"])
def test_what_is_never_given_up(why: str) -> None:
    """6 (h): a reply in one piece, a guest, the only place, and where no other has time for it now."""
    told = Quiet(speed=SLOW if why != "slower" else Rates(prefill=0.1, decode=0.1, beta=0.0))
    if why == "alone":
        told = Quiet(speed=None)
    elif why == "last try":
        told = Quiet(rules=Rules(attempts=1))
    request = ask("r", origin=B) if why == "guest" else ask("r")
    if why == "whole":
        request = replace(request, is_streaming=False)
    told.arrives(request)
    if why == "busy":
        told.arrives(ask("s", local_only=True, limit=100_000))
        told.begins("s")
    elif why == "draining":
        told.scheduler._knows.is_draining = True
    assert told.until_broken_off(900.0) is None


def test_a_call_of_a_tool_is_waited_for_as_long_as_the_longest_may_take() -> None:
    """Engines keep a call to themselves until it is whole: at a quarter of the speed, and no longer."""
    told = Quiet()
    assert sent(told.arrives(ask("r", needs=TOOLS, limit=None))) == [("r", B)]
    given_up_at = told.until_broken_off(2000.0)
    assert given_up_at == math.ceil(TIMES * (100 / FAST.prefill + LONGEST_TOKENS / FAST.decode))


def test_a_model_that_is_still_being_loaded_is_waited_for() -> None:
    """As long as the node says so, for ten minutes."""
    told = Quiet(speed=Rates(prefill=1.0, decode=1.0, beta=0.0))
    told.there = document(B, rates=replace(FAST, load_s=5.0), loaded=False)
    told.beat()
    assert sent(told.arrives(ask("r", limit=10))) == [("r", B)]
    assert told.until_broken_off(2 * LOADING_S) == LOADING_S


def test_other_replies_of_the_engine_show_that_it_is_at_work() -> None:
    """What began or ended there since counts as a sign of life."""
    told = Quiet(slots=2)
    assert sent([*told.arrives(ask("r")), *told.arrives(ask("s"))]) == [("r", B), ("s", B)]
    assert told.until_broken_off(50.0) is None
    told.tell(FirstByteReceived(told.at, AttemptId(RequestId("s"), 1)))
    told.finishes("s")
    assert told.until_broken_off(300.0) == 50.0 + STUCK_S


def without_engine(document: StateDocument) -> StateDocument:
    """The same node, whose engine does not answer it."""
    return replace(document, engines=())


def test_an_engine_that_does_not_answer_its_node_either_is_left_sooner() -> None:
    """F8: half a minute; it is no longer in what its node publishes."""
    told = Quiet()
    told.arrives(ask("r"))
    told.there = without_engine(told.there)
    told.beat()
    assert not told.scheduler.is_up(at(B))
    assert told.until_broken_off(300.0) == GONE_S


def test_an_engine_of_this_node_is_judged_alike() -> None:
    """F8, F18: what hangs here goes to a peer."""
    told = Quiet(speed=FAST)
    told.there = document(B, rates=SLOW)
    told.beat()
    assert sent(told.arrives(ask("r"))) == [("r", A)]
    assert told.scheduler.is_up(at(A))
    told.tell(EngineLost(told.at, GPU))
    assert not told.scheduler.is_up(at(A))
    assert told.until_broken_off(300.0) == GONE_S


def test_nothing_is_known_to_be_down_of_a_node_that_is_not_known() -> None:
    """Its heartbeat is judged elsewhere; here it is not heard, unlike one that told of itself."""
    told = Quiet()
    told.beat()
    assert told.scheduler.is_up(at(C))
    assert [told.scheduler.is_lost(at(node)) for node in (A, B, C)] == [False, False, True]


def test_one_is_given_up_at_a_time() -> None:
    """Two that hang do not both run for the one free slot."""
    told = Quiet(slots=2)
    told.arrives(ask("r"))
    told.arrives(ask("s"))
    assert told.until_broken_off(300.0) == STUCK_S
    told.fails("r", NodeGone("stuck"))
    assert told.until_broken_off(300.0) is None
    assert broken_off(told.finishes("r", 2)) == ["s"], "then the other has its turn"


def test_it_is_looked_at_although_nothing_happens() -> None:
    """The scheduler asks to be woken when the time has come."""
    told = Quiet()
    told.arrives(ask("r"))
    woken: list[Command] = []
    while not broken_off(woken):
        wakeup = told.scheduler.next_wakeup(told.at)
        assert wakeup is not None
        assert wakeup <= STUCK_S
        woken = told.wakes()
        told.beat()
    assert told.at == STUCK_S


@pytest.mark.parametrize(
    ("needs", "limit", "expected"),
    [
        (frozenset[str](), None, QUIET_S),
        (TOOLS, 100, QUIET_S),
        (TOOLS, 10_000, TIMES * 10_000 / FAST.decode),
        (TOOLS, None, TIMES * LONGEST_TOKENS / FAST.decode),
    ],
)
def test_how_long_a_stream_may_pause_is_said_with_it(
    needs: frozenset[str], limit: int | None, expected: float
) -> None:
    """F9: two minutes; with tools as long as the longest call takes at a quarter of the speed."""
    told = Quiet()
    assert only_dispatch(told.arrives(ask("r", needs=needs, limit=limit))).quiet_s == pytest.approx(expected)

"""Conversations in which it matters who has read a prompt before."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pairproxy.core.documents import StateDocument
from pairproxy.core.errors import UpstreamBusy
from pairproxy.core.events import EngineLost, EngineReported, NodeReported
from pairproxy.core.models import BLOCK_TOKENS, Candidate, EngineId, NodeId, Outcome, Request
from pairproxy.core.prefix_news import ToldTo
from tests.core.told import FAST, GPU, SLOW, A, B, Told, ask, document, only_dispatch, report, sent

RULES = tuple(range(1, 65))  # 4096 tokens that all have in common
NEW_S = 36 * BLOCK_TOKENS / SLOW.prefill


def step(name: str, *more: int, **facts: object) -> Request:
    """A request of 100 blocks whose first 64 are RULES."""
    prefix = (*RULES, *more, *range(1000 * len(name), 1000 * len(name) + 36 - len(more)))
    return ask(name, prompt=100 * BLOCK_TOKENS, prefix=prefix, **facts)  # type: ignore[arg-type]


def priced(told: Told, request: Request, node: NodeId = A) -> Candidate:
    """What a node's candidate for a request says."""
    candidates = only_dispatch(told.arrives(request)).decision.candidates
    return next(one for one in candidates if one.place.node == node)


def test_what_an_engine_has_read_costs_no_prefill() -> None:
    """The first request reads all of its prompt, the second only what is new in it."""
    told = Told()
    first = priced(told, step("r"))
    assert first.cached_tokens == 0
    assert first.prefill_s == pytest.approx(100 * BLOCK_TOKENS / SLOW.prefill)
    told.begins("r")
    told.finishes("r")
    second = priced(told, step("rr"))
    assert second.cached_tokens == 64 * BLOCK_TOKENS
    assert second.prefill_s == pytest.approx(NEW_S)


@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_prompt_is_held_once_it_was_read(is_streaming: bool) -> None:
    """A stream shows that with its first byte, a reply in one piece with its end."""
    told = Told(slots=2)
    told.arrives(replace(step("r"), is_streaming=is_streaming))
    held = told.scheduler.local.prefixes
    assert held.matched(GPU, ask("r").model, RULES) == 0
    told.begins("r")
    assert (held.matched(GPU, ask("r").model, RULES) == 64) == is_streaming
    told.finishes("r")
    assert held.matched(GPU, ask("r").model, RULES) == 64


def test_a_prompt_that_was_never_read_is_not_held() -> None:
    """The client left, or the engine failed, before the first byte."""
    told = Told()
    told.arrives(step("r"))
    told.leaves("r")
    told.arrives(step("s"))
    told.fails("s", UpstreamBusy("busy"))
    told.leaves("s")
    told.passes(60.0)
    assert priced(told, step("rr")).cached_tokens == 0


def test_a_prompt_that_was_answered_with_an_error_was_not_read() -> None:
    """It may be longer than the window; sending the next one after it would gain nothing."""
    told = Told()
    told.arrives(step("r"))
    told.begins("r", is_error=True)
    told.finishes("r", outcome=Outcome.ERROR)
    assert priced(told, step("rr")).cached_tokens == 0


def test_what_guests_asked_for_is_held_too() -> None:
    """All that goes to an engine passes its own daemon."""
    told = Told()
    told.arrives(step("b-r-1", origin=B))
    told.begins("b-r-1")
    told.finishes("b-r-1")
    assert priced(told, step("rr")).cached_tokens == 64 * BLOCK_TOKENS


def test_an_engine_that_was_away_holds_nothing() -> None:
    """It was restarted."""
    told = Told()
    told.arrives(step("r"))
    told.begins("r")
    told.finishes("r")
    told.tell(EngineLost(told.at, GPU))
    told.tell(EngineReported(told.at, report()))
    assert priced(told, step("rr")).cached_tokens == 0


class Pair:
    """Node A, and what B publishes to it; both run at the same speed."""

    def __init__(self) -> None:
        self.a, self.b, self.told, self.sequence = Told(speed=FAST), Told(speed=FAST), ToldTo(), 0

    def publishes(self, epoch: str = "1") -> None:
        """A document of B comes to A."""
        news = self.document(self.told.versions(self.b.at), epoch)
        self.told.took(news)
        self.a.tell(NodeReported(self.a.at, news))

    def document(self, told: Mapping[EngineId, int] | None, epoch: str = "1") -> StateDocument:
        """What B says now to one who was told so much of its prefixes."""
        self.sequence += 1
        news = self.b.scheduler.document_for(A, epoch, self.sequence, "b", self.b.at, told)
        return replace(news, node=B)

    def b_reads(self, name: str) -> None:
        """B serves a request of its own."""
        self.b.arrives(step(name))
        self.b.begins(name)
        self.b.finishes(name)


def test_a_request_goes_where_its_prompt_was_read() -> None:
    """As soon as the peer has told of it: at first it runs here, then there."""
    pair = Pair()
    pair.publishes()
    pair.b_reads("r")
    assert priced(pair.a, step("rr"), B).cached_tokens == 0
    pair.a.leaves("rr")
    pair.publishes()
    dispatch = only_dispatch(pair.a.arrives(step("rrr")))
    assert dispatch.decision.place.node == B
    here, there = sorted(dispatch.decision.candidates, key=lambda one: one.place.node)
    assert there.cached_tokens == 64 * BLOCK_TOKENS
    assert there.affinity_s == 0.0 < here.affinity_s


@pytest.mark.parametrize("reads_before", [False, True])
def test_a_refusal_that_overtakes_a_document_loses_no_news(reads_before: bool) -> None:
    """It has no news of prefixes; those of the stream are told once, and count although they come late."""
    pair = Pair()
    pair.publishes()
    if reads_before:
        pair.b_reads("other")
        pair.publishes()
    pair.b_reads("r")
    late = pair.document(pair.told.versions(pair.b.at))
    pair.told.took(late)
    refusal = pair.document(None)
    for heard in (refusal, late):
        pair.a.tell(NodeReported(pair.a.at, heard))
    pair.b_reads("rr")
    pair.publishes()
    assert priced(pair.a, step("rrr"), B).cached_tokens == 64 * BLOCK_TOKENS


def test_a_node_that_lives_anew_holds_nothing() -> None:
    """What its last life told is void."""
    pair = Pair()
    pair.b_reads("r")
    pair.publishes()
    pair.b, pair.told = Told(speed=FAST), ToldTo()
    pair.publishes("2")
    assert priced(pair.a, step("rr"), B).cached_tokens == 0


def test_what_is_being_read_counts_for_who_has_to_wait() -> None:
    """It will be there then; side by side, both prompts would be read."""
    told = Told(speed=FAST)
    told.hears(document(B))
    ((_, busy),) = sent(told.arrives(step("r")))
    alike = ask("rr", prompt=100 * BLOCK_TOKENS, prefix=(*RULES[:30], *range(9000, 9070)))
    candidates = only_dispatch(told.arrives(alike)).decision.candidates
    assert {one.place.node: (one.is_free, one.cached_tokens) for one in candidates} == {
        busy: (False, 30 * BLOCK_TOKENS),
        A if busy == B else B: (True, 0),
    }
    wide = Told(slots=2)
    wide.arrives(step("r"))
    assert priced(wide, step("rr")).cached_tokens == 0

from dataclasses import replace

import pytest

from pairproxy.core.commands import Enqueue, Refuse
from pairproxy.core.errors import BrokenReply, Draining, ModelNotFound, PairproxyError, SlotsTaken
from pairproxy.core.events import AttemptFinished, FirstByteReceived, RequestAbandoned, TimePassed
from pairproxy.core.models import AttemptId, EngineId, NodeId, Usage
from pairproxy.core.simulated_gpu import Phase
from pairproxy.core.simulated_request import (
    as_its_origin_reads,
    ended_by,
    guest_name,
    index_of,
    name_of,
    phase_events,
    request_of,
)
from pairproxy.core.workload import SimRequest

WORK = SimRequest(0.0, NodeId("a"), 100, 20, 30, client="agent")


def test_a_name_leads_back_to_the_workload() -> None:
    """And is one that the peer port accepts."""
    assert [index_of(name_of(index)) for index in (0, 7, 123)] == [0, 7, 123]
    assert name_of(123).isalnum()


def test_a_guest_is_named_by_its_origin_and_attempt() -> None:
    """So two origins, or two attempts, never clash."""
    names = {
        guest_name(NodeId(origin), AttemptId(name_of(index), number))
        for origin in ("aaaaaaaaX", "aaaaaaaaY") for index in (1, 2) for number in (1, 2)
    }  # fmt: skip
    assert len(names) == 8
    assert "aaaaaaaaX-r1-2" in names


def test_a_peer_sees_the_origin_as_its_client() -> None:
    """As the peer port makes it; at home the client is who asked."""
    own = request_of(name_of(1), WORK)
    assert (own.client, own.origin, own.prompt_tokens, own.max_output_tokens) == ("agent", None, 100, 30)
    guest = request_of(name_of(1), WORK, NodeId("b"), EngineId("gpu"))
    assert (guest.client, guest.origin, guest.engine) == ("b", "b", "gpu")


def test_the_shape_of_a_prompt_goes_along() -> None:
    """Its blocks, its chain and its run are what the ports would have read off it."""
    wanted = replace(WORK, blocks=(7, 8), chain="c", run="job", is_streaming=False)
    own = request_of(name_of(1), wanted)
    assert (own.prefix, own.chain, own.run, own.is_streaming) == ((7, 8), "c", "job", False)


def test_a_prompt_whose_beginning_is_not_told_still_has_one() -> None:
    """The engine's cache finds it; the scheduler does not know."""
    wanted = replace(WORK, blocks=(1, 2), tells_blocks=False)
    assert request_of(name_of(0), wanted).prefix == ()
    assert wanted.blocks == (1, 2)


def test_a_reply_tells_its_tokens_at_its_end() -> None:
    """And no seconds: these are measured where it runs."""
    attempt = AttemptId(name_of(1), 1)
    assert phase_events(3.0, attempt, Phase.PREFILL, WORK) == [FirstByteReceived(3.0, attempt)]
    (end,) = phase_events(4.0, attempt, Phase.DECODE, WORK, 64)
    assert isinstance(end, AttemptFinished)
    assert end.usage == Usage(prompt_tokens=100, cached_tokens=64, output_tokens=20)


def test_a_reply_in_one_piece_has_its_first_byte_at_its_end() -> None:
    """Nothing is heard of it before."""
    attempt, wanted = AttemptId(name_of(1), 1), replace(WORK, is_streaming=False)
    assert phase_events(3.0, attempt, Phase.PREFILL, wanted) == []
    first, end = phase_events(4.0, attempt, Phase.DECODE, wanted)
    assert first == FirstByteReceived(4.0, attempt)
    assert isinstance(end, AttemptFinished)


def test_a_request_ends_by_its_reply_its_client_or_a_refusal() -> None:
    """And by nothing else: an attempt that failed goes round again."""
    end = phase_events(4.0, AttemptId(name_of(1), 1), Phase.DECODE, WORK)[0]
    assert list(ended_by(end, [Enqueue(name_of(2), 0)])) == ["r1"]
    assert list(ended_by(RequestAbandoned(1.0, name_of(3)), [])) == ["r3"]
    assert list(ended_by(TimePassed(1.0), [Refuse(name_of(4), SlotsTaken("x"))])) == ["r4"]


@pytest.mark.parametrize(
    ("error", "read"),
    [(SlotsTaken("x"), SlotsTaken), (Draining("x"), SlotsTaken), (ModelNotFound("x"), BrokenReply)],
)
def test_a_refusal_is_read_as_over_the_wire(error: PairproxyError, read: type[PairproxyError]) -> None:
    """A slot that is taken blames nobody, everything else is a failure of that node."""
    assert type(as_its_origin_reads(error)) is read

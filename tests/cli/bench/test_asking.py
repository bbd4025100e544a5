import asyncio
import json
import time
from itertools import pairwise
from typing import Any

import pytest

from pairproxy.cli.bench.asking import Line, Reply, ask_all
from pairproxy.cli.bench.workloads import chains
from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import NodeId
from pairproxy.core.workload import SimRequest
from tests.support.engine_scripts import in_chunks, json_reply, openai_chat, raw
from tests.support.engine_thread import in_thread
from tests.support.fake_engine import FakeEngine, Script

A = NodeId("A")
USAGE = {"prompt_tokens": 40, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}}
REPLY = openai_chat(
    [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]},
        {"choices": [{"index": 0, "delta": {"content": "one "}}]},
        {"choices": [{"index": 0, "delta": {"content": "two"}}]},
        {"choices": [], "usage": USAGE},
    ]
)


def run(
    script: Script, requests: tuple[SimRequest, ...] = (SimRequest(0.0, A, 100, 20),), **line: Any
) -> tuple[list[Reply], FakeEngine]:
    """Ask an engine with this script."""
    with in_thread(script) as engine:
        given = {"model": "m:1b", "run": "leg-1", "nonce": "n", **line}
        replies = asyncio.run(ask_all(requests, Line({A: engine.port}, **given)))
    return replies, engine


def said(engine: FakeEngine) -> list[list[tuple[str, str]]]:
    """The conversations it was asked, as (role, text)."""
    return [
        [(message["role"], message["content"]) for message in request.json()["messages"]]
        for request in engine.requests
    ]


def test_a_reply_is_taken_apart() -> None:
    """Text, tokens and cached tokens as the engine told them; times in order."""
    (reply,), engine = run(REPLY)
    assert (reply.text, reply.prompt_tokens, reply.cached_tokens, reply.output_tokens) == (
        "one two",
        40,
        16,
        2,
    )
    assert 0 <= reply.asked_s < reply.first_s <= reply.ended_s
    assert engine.requests[0].header("X-Pairproxy-Run") == b"leg-1"


def test_the_wished_length_is_in_the_prompt_where_no_scheduler_sees_it() -> None:
    """Paced engines read it there; real models get it as a limit instead."""
    _, wished = run(REPLY)
    _, limited = run(REPLY, is_limited=True, is_local_only=True)
    assert said(wished)[0][-1][1].endswith("Answer in 20 tokens.")
    assert "max_tokens" not in wished.requests[0].json()
    assert limited.requests[0].json()["max_tokens"] == 20
    assert "tokens" not in said(limited)[0][-1][1]
    assert limited.requests[0].header("X-Pairproxy-Local") == b"true"


def test_a_prompt_is_as_long_as_its_tokens_and_begins_with_what_is_shared() -> None:
    """The same blocks are the same text in one leg, and other text in another."""
    shared = SimRequest(0.0, A, 300, 20, blocks=(7, 8))
    other = SimRequest(0.0, A, 300, 20, blocks=(7, 9))
    _, engine = run(REPLY, (shared, other))
    first, second = said(engine)
    assert [sum(len(text) for _, text in one) for one in (first, second)] == [1200, 1200]
    assert first[0][0] == "system"
    assert first[0][1][:256] == second[0][1][:256]
    assert first[0][1][256:] != second[0][1][256:]
    assert first[1] != second[1]
    _, later = run(REPLY, (shared,), nonce="another")
    assert said(later)[0][0][1][:256] != first[0][1][:256]


def test_a_step_goes_on_where_the_last_one_ended() -> None:
    """Each conversation begins with the whole one before, then the reply as it came, then something new."""
    steps = chains(1, (A,), 1).requests[:3]
    assert len(steps) == 3
    _, engine = run(REPLY, steps, fast_forward=200.0)
    conversations = said(engine)
    for before, after in pairwise(conversations):
        assert after[: len(before)] == before
        assert after[len(before)] == ("assistant", "one two")
        assert after[len(before) + 1][0] == "user"
    assert len(conversations) == 3


def test_a_step_of_an_agent_brings_tools_and_is_hardly_longer_for_it() -> None:
    """A daemon knows an agent by them; the prompt has the tokens of the workload, less than a block apart."""
    (step, *_) = chains(1, (A,), 1).requests
    _, engine = run(REPLY, (step, SimRequest(0.0, A, 100, 20)))
    bodies = [request.json() for request in engine.requests]
    (agents,) = [body for body in bodies if "tools" in body]
    text = sum(len(message["content"]) for message in agents["messages"])
    tools = len(json.dumps(agents["tools"], separators=(",", ":")))
    assert 0 <= text + tools - 4 * step.prompt_tokens < 256
    assert len(bodies) == 2


def test_times_are_told_as_if_nothing_were_fast_forwarded() -> None:
    """A pause of 20 s takes a fifth of a second at a hundred times the pace, and is 20 s in the result."""
    later = SimRequest(20.0, A, 100, 20)
    began_at = time.monotonic()
    (reply,), _ = run(REPLY, (later,), fast_forward=100.0)
    assert 20.0 <= reply.asked_s < 100.0 * (time.monotonic() - began_at)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (json_reply({"error": "secret"}, 503), "HTTP 503"),
        (raw(b"", then="close"), "the connection ended"),
        (in_chunks([b'data: {"choices": []}\n\n'], content_type="text/event-stream"), "broke off"),
    ],
)
def test_a_reply_that_is_not_whole_is_a_sentence(script: Script, why: str) -> None:
    """No bench has numbers from replies that failed; nothing of what was said is in the sentence."""
    with pytest.raises(BaseExceptionGroup) as caught:
        run(script)
    (error,) = caught.value.exceptions
    assert isinstance(error, PairproxyError)
    assert why in error.sentence
    assert "secret" not in error.sentence


def test_a_client_that_sends_one_at_a_time_waits_with_the_others() -> None:
    """They are asked when they were due, and the engine has one at once."""
    requests = (SimRequest(0.0, A, 20, 2),) * 3
    replies, engine = run(REPLY, requests, at_once=1)
    assert len(engine.requests) == 3
    spans = sorted((one.first_s, one.ended_s) for one in replies)
    assert all(ended <= first for (_, ended), (first, _) in pairwise(spans))
    assert max(one.asked_s for one in replies) < spans[0][1]

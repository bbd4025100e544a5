"""Conversations about the requests of this machine: tell an event, expect commands."""

from dataclasses import replace
from typing import Any

import pytest

from pairproxy.core.commands import Refuse
from pairproxy.core.costs import PRIORS
from pairproxy.core.errors import ModelNotFound, QueueTimeout
from pairproxy.core.events import AttemptFinished, EngineLost, EngineReported
from pairproxy.core.models import AttemptId, EngineId, ModelName, NodeId, Outcome, RequestId, Usage
from pairproxy.core.queue import NOWHERE_S
from pairproxy.core.rules import Rules
from tests.core.told import (
    FAST,
    GPU,
    SLOW,
    A,
    B,
    C,
    M,
    Told,
    ask,
    document,
    only_dispatch,
    queued,
    refused,
    report,
    sent,
)

OTHER = ModelName("other:latest")
CPU = EngineId("cpu")


def test_a_request_goes_where_it_is_finished_first() -> None:
    """With all slots free, the fastest node gets it, and the decision says why."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    commands = told.arrives(ask("r"))
    assert sent(commands) == [("r", B)]
    decision = only_dispatch(commands).decision
    assert (decision.policy, len(decision.candidates)) == ("fastest-finish", 2)
    assert "1.10 s" in decision.reason


def test_a_slow_free_node_stays_idle_while_the_fast_one_finishes_sooner() -> None:
    """Waiting 1 s for a node that is four times as fast is better than beginning now; waiting 5 s is not."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST, frees=(1.0,)))
    assert queued(told.arrives(ask("r"))) == [("r", 0)]
    assert sent(told.hears(document(B, rates=FAST))) == [("r", B)]
    told.hears(document(B, rates=FAST, frees=(5.0,)))
    assert sent(told.arrives(ask("s"))) == [("s", A)]


def test_the_queue_is_served_in_order() -> None:
    """Each slot that comes free goes to the request that waits longest."""
    told = Told()
    assert sent(told.arrives(ask("r1"))) == [("r1", A)]
    assert [queued(told.arrives(ask(name))) for name in ("r2", "r3")] == [[("r2", 0)], [("r3", 1)]]
    assert sent(told.finishes("r1")) == [("r2", A)]
    assert sent(told.finishes("r2")) == [("r3", A)]
    assert told.scheduler.waiting == 0


def test_a_later_request_may_take_the_slow_node_that_is_no_gain_for_an_earlier_one() -> None:
    """Behind a queue on the fast node, the slow one is worth it for whoever would wait longest."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    assert [sent(told.arrives(ask(f"r{number}"))) for number in range(6)] == [
        [("r0", B)], [], [], [], [("r4", A)], [],
    ]  # fmt: skip


def test_what_may_be_a_long_reply_stays_away_from_a_slow_node() -> None:
    """Without a limit of the client, the choice reckons with one of the longest replies in twenty."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    told.arrives(ask("first", limit=None))
    sizes = range(100, 600, 100)
    assert [sent(told.arrives(ask(f"r{size}", prompt=size, limit=None))) for size in sizes] == [[]] * 5
    assert sent(told.passes(1.0)) == []


def test_a_model_that_nobody_lists_goes_to_the_engine_that_was_called() -> None:
    """Its answer is the authoritative one; and the request holds a slot like every other."""
    told = Told()
    assert sent(told.arrives(ask("r1", model=OTHER, engine=GPU))) == [("r1", A)]
    assert queued(told.arrives(ask("r2"))) == [("r2", 0)]
    assert sent(told.finishes("r1")) == [("r2", A)]


def test_a_model_that_nobody_has_is_refused() -> None:
    """Without an engine that was called there is nobody to ask."""
    assert refused(Told().arrives(ask("r", model=OTHER))) == [("r", ModelNotFound)]


def test_a_model_that_only_a_peer_has_runs_there() -> None:
    """Also when an engine of this machine was called."""
    told = Told()
    told.hears(document(B, model=OTHER))
    assert sent(told.arrives(ask("r", model=OTHER, engine=GPU))) == [("r", B)]


def test_equal_names_with_different_content_are_never_mixed() -> None:
    """Neither a peer's model nor one of another engine here answers for the one that was called."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST, identity="sha256:2"))
    told.tell(EngineReported(told.at, report(8, engine=EngineId("other"), identity="sha256:3")))
    assert [sent(told.arrives(ask(f"r{number}", engine=GPU))) for number in range(3)] == [[("r0", A)], [], []]
    assert sent(told.finishes("r0")) == [("r1", A)]


def test_a_draining_peer_gets_no_new_requests() -> None:
    """It takes no new work, however fast it is."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST, draining=True))
    assert sent(told.arrives(ask("r"))) == [("r", A)]


def test_a_silent_peer_gets_no_new_requests() -> None:
    """Three seconds without a document are enough."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    told.passes(3.0)
    assert sent(told.arrives(ask("r"))) == [("r", A)]


@pytest.mark.parametrize("policy", ["fastest-finish", "local-only"])
def test_what_must_stay_here_stays_here(policy: str) -> None:
    """By the request's own wish, or by the policy for all."""
    told = Told(speed=SLOW, rules=Rules(policy=policy))
    told.hears(document(B, rates=FAST))
    local_only = policy == "fastest-finish"
    assert sent(told.arrives(ask("r1", local_only=local_only))) == [("r1", A)]
    assert sent(told.arrives(ask("r2", local_only=local_only))) == []


def test_a_model_of_this_machine_only_stays_here() -> None:
    """Its requests wait for this node while another one is idle; those of other models do not."""
    told = Told(speed=SLOW, rules=Rules(local_only=("m",)))
    told.hears(document(B, rates=FAST))
    assert sent(told.arrives(ask("r1"))) == [("r1", A)]
    assert sent(told.arrives(ask("r2"))) == []
    free = Told(speed=SLOW, rules=Rules(local_only=("m:8b", "n*")))
    free.hears(document(B, rates=FAST))
    assert sent(free.arrives(ask("r1"))) == [("r1", B)]


def test_each_node_keeps_its_window() -> None:
    """Two clients that ask for different windows in turn: no model is loaded twice."""
    told = Told(speed=None)
    told.tell(EngineReported(0.0, report(kind="ollama", context_tokens=4096)))
    told.hears(document(B, rates=PRIORS["ollama"], kind="ollama", context_tokens=4096))
    seen: dict[int, set[NodeId]] = {8192: set(), 32768: set()}
    for number in range(10):
        window = (8192, 32768)[number % 2]
        request = ask(f"r{number}", path="/api/chat", context_tokens=window, runner=str(window), engine=GPU)
        ((_, node),) = sent(told.arrives(request))
        seen[window].add(node)
        told.begins(f"r{number}")
        told.finishes(f"r{number}")
    assert [len(nodes) for nodes in seen.values()] == [1, 1]
    assert seen[8192] != seen[32768]


def test_least_busy_takes_turns() -> None:
    """Among nodes that are equally busy, each gets its turn, whatever its speed."""
    told = Told(speed=SLOW, rules=Rules(policy="least-busy"))
    told.hears(document(B, rates=FAST))
    told.hears(document(C, rates=SLOW))
    first = [sent(told.arrives(ask(f"r{number}")))[0][1] for number in range(3)]
    assert sorted(first) == [A, B, C]
    for name in ("r0", "r1", "r2"):
        told.finishes(name)
    second = [sent(told.arrives(ask(f"s{number}")))[0][1] for number in range(3)]
    assert second == first


def test_a_lost_engine_takes_nothing() -> None:
    """What asks for its models waits for it, and goes to it when it answers again."""
    told = Told()
    told.tell(EngineLost(told.at, GPU))
    assert queued(told.arrives(ask("r", engine=GPU))) == [("r", 0)]
    assert refused(told.arrives(ask("s", engine=GPU, model=OTHER))) == [("s", ModelNotFound)]
    told.passes(NOWHERE_S - 1.0)
    assert sent(told.tell(EngineReported(told.at, report()))) == [("r", A)]


@pytest.mark.parametrize("facts", [{}, {"local_only": True}, {"stays": "it names a file"}, {"engine": None}])
def test_a_lost_engine_is_waited_for_as_long_as_a_lost_model(facts: dict[str, Any]) -> None:
    """Then the request is refused with a time to come back, however it is bound to its engine."""
    told = Told()
    told.tell(EngineLost(told.at, GPU))
    told.arrives(ask("r", **{"engine": GPU, **facts}))
    assert told.passes(NOWHERE_S - 0.1) == []
    (command,) = told.passes(0.2)
    assert isinstance(command, Refuse)
    assert isinstance(command.error, QueueTimeout)
    assert command.error.retry_after_s == 1


def test_another_engine_that_is_lost_is_not_waited_for_by_what_cannot_go_there() -> None:
    """A request that is bound to the engine it called gets that one's answer about the model."""
    told = Told()
    told.tell(EngineReported(told.at, report(engine=CPU, model=OTHER)))
    told.tell(EngineLost(told.at, CPU))
    other = ask("r", engine=GPU, model=OTHER, stays="it names a file")
    assert sent(told.arrives(other)) == [("r", A)]


def test_a_peer_is_told_at_once_that_an_engine_is_lost() -> None:
    """Its request may go elsewhere; nothing of a peer's is kept waiting."""
    told = Told()
    told.tell(EngineLost(told.at, GPU))
    assert refused(told.arrives(ask("b-r-1", origin=B, engine=GPU))) == [("b-r-1", ModelNotFound)]


def test_a_burst_is_shared_after_a_prompt_that_came_many_times() -> None:
    """Twenty-five times the same 800 words, read from a cache, make a node no faster than its equal."""
    told = Told(speed=None)
    told.tell(EngineReported(told.at, report(kind="ollama")))
    for number in range(25):
        name = f"same{number}"
        assert sent(told.arrives(ask(name, prompt=1100, limit=10))) == [(name, A)]
        told.begins(name)
        told.at += 1.0
        usage = Usage(1100, None, 10, 1.1 if number == 0 else 0.006, 0.2)
        told.tell(AttemptFinished(told.at, AttemptId(RequestId(name), 1), Outcome.DONE, usage))
    rates = told.scheduler.local.rates(GPU, M)
    assert rates.prefill == pytest.approx(1000.0)
    told.hears(document(B, rates=rates))
    burst = [told.arrives(ask(f"new{number}", prompt=1100, limit=10)) for number in range(6)]
    assert {node for commands in burst for _, node in sent(commands)} == {A, B}


def test_a_place_that_hangs_is_not_waited_for() -> None:
    """What takes three times as long as expected may take as long again: the slow node is better."""
    told = Told(speed=SLOW)
    told.hears(document(B, rates=FAST))
    told.arrives(ask("hangs"))
    told.arrives(ask("waits"))
    for _ in range(6):
        told.at += 1.0
        assert sent(told.hears(document(B, rates=FAST))) == []
    told.at += 1.0
    assert sent(told.hears(document(B, rates=FAST))) == [("waits", A)]


def test_a_reply_that_came_at_once_is_as_one_that_began_and_ended_in_a_moment() -> None:
    """What it teaches, and who is known to use the engine, is the same; the next one goes as soon."""
    whole, told = Told(slots=1), Told(slots=1)
    attempt, usage = AttemptId(RequestId("r"), 1), Usage(output_tokens=50)
    for one in (whole, told):
        one.hears(document(B, slots=0))
        one.arrives(replace(ask("r"), is_streaming=False))
        one.arrives(ask("next"))
        one.at += 2.0
    told.begins("r")
    end = AttemptFinished(told.at, attempt, Outcome.DONE, usage)
    commands = told.tell(end)
    assert repr(whole.tell(replace(end, is_whole=True))) == repr(commands)
    assert sent(commands) == [("next", A)]
    assert whole.scheduler.places(told.at) == told.scheduler.places(told.at)
    for at in (told.at, told.at + 5.0, told.at + 20.0):
        assert whole.scheduler.document_for(B, "e", 1, "a", at) == told.scheduler.document_for(
            B, "e", 1, "a", at
        )

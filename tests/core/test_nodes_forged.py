"""What a node says that cannot be true, or is too much: it costs that entry and nothing else."""

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.documents import EngineState, Promise, ReplicaState, Wanted
from pairproxy.core.models import EngineId, ModelName, NodeId, Replica
from pairproxy.core.nodes import (
    MAX_ENGINES,
    MAX_REPLICAS,
    MAX_SLOTS,
    MAX_WANTED,
    MAX_WANTED_PREFIXES,
    MOST_TOKENS,
    MOST_WAITING,
    PROMISED_S,
    NodeTable,
)
from pairproxy.core.rules import STALE_S
from tests.core.told import FAST, GPU, A, B, C, M, Told, ask, at, document, sent

MANY = frozenset(map(str, range(1000)))


def engine(**fields: Any) -> EngineState:
    """B's engine with other numbers."""
    return replace(document(B).engines[0], **fields)


def replica(**rates: float) -> ReplicaState:
    """B's replica with other rates."""
    return ReplicaState(Replica(M, "sha256:1"), True, replace(FAST, **rates))


def named(model: str) -> ReplicaState:
    """A replica by this name."""
    return ReplicaState(Replica(ModelName(model), "sha256:1"), True, FAST)


@pytest.mark.parametrize(
    "bad",
    [
        engine(slots=0),
        engine(slots=-3),
        engine(slots=MAX_SLOTS + 1),
        engine(in_flight=-1),
        engine(in_flight=10**30),
        engine(yours=-1),
        engine(yours=10**30),
        engine(cache_tokens=-1),
        engine(cache_tokens=10**30),
        engine(replicas=(replace(replica(), replica=Replica(M, "sha256:1", context_tokens=-4096)),)),
        engine(replicas=(replace(replica(), replica=Replica(M, "sha256:1", context_tokens=10**30)),)),
        engine(frees_in_s=(1e12,)),
        engine(frees_in_s=(1.0,) * (MAX_SLOTS + 1)),
        engine(engine="a\nb"),
        engine(replicas=(replica(prefill=0.0),)),
        engine(replicas=(replica(decode=-1.0),)),
        engine(replicas=(replica(decode=1e30),)),
        engine(replicas=(replica(beta=-0.1),)),
        engine(replicas=(replica(load_s=-1.0),)),
        engine(replicas=(replica(load_s=1e30),)),
        engine(replicas=(named(M + "\x1b[2J"),)),
        engine(replicas=(named("m" * 300),)),
        engine(replicas=(replace(replica(), replica=Replica(M, "sha256:" + "1" * 10**6)),)),
        engine(replicas=(replace(replica(), replica=Replica(M, "sha256:\x9b31m")),)),
        engine(replicas=(replace(replica(), replica=Replica(M, "sha256:1", facts="f" * 10**6)),)),
        engine(replicas=(replace(replica(), replica=Replica(M, "sha256:1", called="\x1b[2J")),)),
        engine(replicas=(replace(replica(), replica=Replica(M, "sha256:1", capabilities=MANY)),)),
    ],
)
def test_numbers_that_cannot_be_reckoned_with_are_dropped(bad: EngineState) -> None:
    """The peer stays, its sane engines stay; a scheduler that hears the rest still plans."""
    sane = engine(engine=EngineId("sane"))
    told = Told()
    told.hears(replace(document(B), engines=(bad, sane)))
    ((kept, _),) = told.scheduler.nodes.documents(0.0)
    assert [one.engine for one in kept.engines if one.replicas] == ["sane"]
    assert told.arrives(ask("r"))


@pytest.mark.parametrize("bad", ["v" * 10**6, "1.0\n2026 ERROR x", "\x1b[2J", "1\u202e0"])
def test_a_kind_or_version_that_is_no_word_costs_nothing_but_itself(bad: str) -> None:
    """It would be in each status, twice a second for each who watches."""
    told = Told()
    told.hears(replace(document(B), engines=(engine(kind=bad, version=bad),)))
    ((kept, _),) = told.scheduler.nodes.documents(0.0)
    assert [(one.kind, one.version, len(one.replicas)) for one in kept.engines] == [("", "", 1)]
    told.hears(replace(document(B), sequence=9, engines=(engine(kind="vllm", version="0.6.3"),)))
    ((kept, _),) = told.scheduler.nodes.documents(0.0)
    assert [(one.kind, one.version) for one in kept.engines] == [("vllm", "0.6.3")]


def test_the_most_slots_that_are_believed_are_kept() -> None:
    """The bound itself is allowed."""
    table = NodeTable()
    table.report(document(B, slots=MAX_SLOTS), 0.0)
    known = table.engine(at(B))
    assert known is not None
    assert known[0].slots == MAX_SLOTS


def test_a_flood_of_engines_and_models_is_cut() -> None:
    """What one peer can make the others keep is bounded."""
    table = NodeTable()
    many = engine(replicas=tuple(named(f"m{number}") for number in range(MAX_REPLICAS + 1)))
    engines = [replace(many, engine=EngineId(f"e{number}")) for number in range(MAX_ENGINES + 1)]
    table.report(replace(document(B), engines=tuple(engines)), 0.0)
    ((kept, _),) = table.documents(0.0)
    assert [len(one.replicas) for one in kept.engines] == [MAX_REPLICAS] * MAX_ENGINES


def test_what_is_told_twice_counts_once() -> None:
    """An engine, a model of one and a model that is waited for: each copy would be priced like the first."""
    table = NodeTable()
    wanted = Wanted(M, 1, 1.0, 1.0, 0.0)
    twice = engine(replicas=(replica(), replica(decode=1.0)))
    table.report(replace(document(B), engines=(twice,) * 3, wanted=(wanted,) * 3), 0.0)
    ((kept, _),) = table.documents(0.0)
    assert kept.wanted == (wanted,)
    assert [one.replicas for one in kept.engines] == [(replica(),)]


def test_the_slots_of_a_node_are_bounded_together() -> None:
    """Each costs every plan: engines that would have too many together are left out."""
    table = NodeTable()
    many = [
        engine(engine=EngineId("a"), slots=MAX_SLOTS - 1),
        engine(engine=EngineId("b"), slots=1, frees_in_s=(1.0, 1.0)),
        engine(engine=EngineId("c"), slots=1),
    ]
    table.report(replace(document(B), engines=tuple(many)), 0.0)
    ((kept, _),) = table.documents(0.0)
    assert [one.engine for one in kept.engines] == ["a", "c"]


def test_the_name_of_a_life_is_short() -> None:
    """Those that are over are remembered."""
    table = NodeTable()
    assert not table.report(document(B, epoch="e" * 1_000_000), 0.0)
    assert not table.report(document(B, epoch=""), 0.0)
    assert list(table.documents(0.0)) == []


@given(
    st.builds(
        Wanted,
        model=st.sampled_from([M, ModelName(""), ModelName("x" * 300)]),
        count=st.integers(-5, 10**7),
        prefill_tokens=st.floats(),
        decode_tokens=st.floats(),
        oldest_age_s=st.floats(),
        prefixes=st.lists(st.integers(0, 9), max_size=20).map(tuple),
        yours=st.integers(-5, 10**7),
    ),
    st.builds(Promise, origin=st.sampled_from([A, B, NodeId("")]), for_s=st.floats()),
)
def test_forged_wants_and_promises_are_left_out_or_cut(wanted: Wanted, promise: Promise) -> None:
    """A peer that tells nonsense is bounded: what is kept can be reckoned with, and the plan goes on."""
    told = Told(slots=1)
    told.arrives(ask("runs"))
    forged = replace(document(B, frees=(1.0,)), wanted=(wanted,) * (MAX_WANTED + 1))
    forged = replace(forged, engines=(replace(forged.engines[0], promises=(promise,) * 9, asks=True),))
    told.hears(forged)
    ((kept, _),) = told.scheduler.nodes.documents(0.0)
    assert len(kept.wanted) in (0, 1)
    for one in kept.wanted:
        assert 0 <= one.yours <= one.count <= MOST_WAITING
        assert 0.0 <= one.prefill_tokens + one.decode_tokens <= 2 * MOST_TOKENS
        assert len(one.prefixes) <= MAX_WANTED_PREFIXES
    assert len(kept.engines[0].promises) <= kept.engines[0].slots
    assert all(0.0 <= one.for_s <= PROMISED_S for one in kept.engines[0].promises)
    commands = told.arrives(ask("waits")) + told.finishes("runs")
    commands += told.passes(STALE_S)  # for so long it may wait for a slot there that should be free
    assert [name for name, _ in sent(commands)] == ["waits"]


def test_the_replica_each_node_holds_under_a_name_can_be_compared() -> None:
    """So that a person can be told why two nodes do not share a model."""
    table = NodeTable()
    table.report(document(B), 0.0)
    table.report(replace(document(C, identity="sha256:2"), name="box"), 0.0)
    assert {node: replica.identity for node, replica in table.identities(M).items()} == {
        B: "sha256:1",
        C: "sha256:2",
    }
    assert [place.engine for place, _, state in table.healthy_replicas(M, 0.0) if state.rates == FAST] == [
        GPU,
        GPU,
    ]


@pytest.mark.parametrize(
    "name",
    ["", "../x", "a/../b", "..", "a\n", "\x1b[2J", "a\u202eb", "http://x/y", "file:///etc/passwd", "x" * 257],
)
def test_a_name_that_is_no_models_costs_its_entry_and_not_the_peer(name: str) -> None:
    """I14: the other models of the peer, its wants and itself stay."""
    told = document(B)
    (engine,) = told.engines
    (good,) = engine.replicas
    bad = replace(good, replica=replace(good.replica, model=ModelName(name)))
    wants = tuple(Wanted(ModelName(model), 1, 1.0, 1.0, 0.0) for model in (name, "m:1"))
    table = NodeTable()
    assert table.report(replace(told, engines=(replace(engine, replicas=(bad, good)),), wanted=wants), 0.0)
    ((kept, _),) = table.documents(0.0)
    assert kept.engines[0].replicas == (good,)
    assert [one.model for one in kept.wanted] == ["m:1"]


@pytest.mark.parametrize("name", ["hf.co/user/model-GGUF:Q4_K_M", "/models/a.gguf", "a..b", "org/model@v1.0"])
def test_a_name_that_engines_use_is_kept(name: str) -> None:
    """Paths and names of repositories are what some engines call their models."""
    told = document(B)
    (engine,) = told.engines
    one = replace(engine.replicas[0], replica=replace(engine.replicas[0].replica, model=ModelName(name)))
    table = NodeTable()
    table.report(replace(told, engines=(replace(engine, replicas=(one,)),)), 0.0)
    assert len(list(table.replicas(ModelName(name)))) == 1


def test_a_hundred_thousand_models_cost_a_bounded_part_of_a_second() -> None:
    """I14: a thousand of each engine are kept, and reading the rest is not worth telling."""
    told = document(B)
    (engine,) = told.engines
    (good,) = engine.replicas
    many = tuple(
        replace(good, replica=replace(good.replica, model=ModelName(f"m{number}:1")))
        for number in range(100_000)
    )
    table = NodeTable()
    began = time.process_time()
    assert table.report(replace(told, engines=(replace(engine, replicas=many),)), 0.0)
    assert time.process_time() - began < 0.5
    ((kept, _),) = table.documents(0.0)
    assert len(kept.engines[0].replicas) == MAX_REPLICAS


@pytest.mark.parametrize("field", ["prefill", "decode", "beta", "load_s"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_impossible_speeds_cost_their_entry(field: str, value: float) -> None:
    """I14: negative sizes, and numbers that are none, never reach a plan."""
    told = document(B)
    (engine,) = told.engines
    (good,) = engine.replicas
    bad = replace(good, rates=replace(good.rates, **{field: value}))
    table = NodeTable()
    assert table.report(replace(told, engines=(replace(engine, replicas=(bad,)),)), 0.0)
    ((kept, _),) = table.documents(0.0)
    assert kept.engines[0].replicas == ()

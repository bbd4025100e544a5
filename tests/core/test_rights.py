"""What peers with few rights are told, and what they get."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.catalogue import node_catalogue
from pairproxy.core.commands import Command, Dispatch, Refuse
from pairproxy.core.documents import (
    CatalogueEntry,
    EngineCatalogue,
    EngineState,
    PrefixNews,
    Promise,
    ReplicaState,
    StateDocument,
)
from pairproxy.core.errors import ModelNotFound, SlotsTaken
from pairproxy.core.events import RightsChanged
from pairproxy.core.models import ModelName, NodeId, Outcome, Replica, Request, Rights
from pairproxy.core.rights import SOON_S, RightsTable
from tests.core.told import FAST, GPU, A, B, C, M, Told, ask

OTHER = ModelName("secret:70b")


def engine(
    slots: int = 4, *, others: tuple[float, ...] = (), yours: int = 0, models: tuple[ModelName, ...] = (M,)
) -> EngineState:
    """An engine as everybody is told of it; ``others``: seconds until each slot of others is free."""
    replicas = tuple(ReplicaState(Replica(model, "sha256:1"), True, FAST) for model in models)
    return EngineState(GPU, "paced", "1", slots, len(others) + yours, yours, others, replicas)


def seen(state: EngineState, slots: int | None, *, left: int | None = None, **rights: object) -> EngineState:
    """The engine as B sees it, which may hold so many slots and has ``left`` of them (None: all of them)."""
    table = RightsTable()
    table.follow({B: Rights(slots, **rights)})  # type: ignore[arg-type]
    (one,) = table.seen((state,), B, slots if left is None else left)
    return one


def test_who_has_all_rights_is_told_all() -> None:
    """Also whoever is not named at all."""
    table = RightsTable()
    states = (engine(others=(1.0, 2.0), yours=1),)
    assert table.seen(states, B, None) == states
    table.follow({B: Rights()})
    assert table.seen(states, B, None) == states
    assert table.slots(B) is None
    assert table.may_use(B, OTHER)


@pytest.mark.parametrize(
    ("others", "yours", "left", "slots", "in_flight", "frees"),
    [
        ((), 0, 2, 2, 0, ()),
        ((1.0, 2.0), 0, 2, 2, 0, ()),  # the two others fit beside its two
        ((1.0, 2.0, 3.0), 0, 2, 2, 1, (1.0,)),  # one of them is in its way, until the first is done
        ((1.0, 2.0, 3.0, 4.0), 0, 2, 2, 2, (1.0, 2.0)),
        ((), 2, 0, 2, 2, ()),
        ((1.0, 2.0), 2, 0, 2, 2, ()),
        ((1.0,), 1, 1, 2, 1, ()),
    ],
)
def test_an_engine_looks_as_large_as_the_share(
    others: tuple[float, ...], yours: int, left: int, slots: int, in_flight: int, frees: tuple[float, ...]
) -> None:
    """G14: of four slots of which it may hold two a peer sees two, taken by others once the rest is full."""
    found = seen(engine(others=others, yours=yours), 2, left=left)
    assert (found.slots, found.in_flight, found.yours, found.frees_in_s) == (slots, in_flight, yours, frees)


def test_who_holds_all_that_it_may_elsewhere_sees_a_full_engine() -> None:
    """Its models stay known: it can wait for them."""
    found = seen(engine(), 1, left=0)
    assert (found.slots, found.in_flight, found.frees_in_s) == (1, 1, (SOON_S,))
    assert found.replicas


def test_promises_to_others_bar_only_what_they_would_take_of_the_share() -> None:
    """Its own are told, those of others as far as they stand in its way."""
    promises = (Promise(C, 0.2), Promise(B, 0.1), Promise(C, 0.2))
    state = replace(engine(others=(1.0,)), promises=promises)
    assert seen(state, 2).promises == (Promise(B, 0.1), Promise(C, 0.2))
    assert seen(state, 1).promises == (Promise(B, 0.1),)


@given(
    slots=st.integers(1, 9),
    others=st.integers(0, 9),
    yours=st.integers(0, 9),
    share=st.integers(1, 9),
    promised=st.lists(st.sampled_from([B, C]), max_size=5),
)
def test_no_share_shows_more_than_there_is(
    slots: int, others: int, yours: int, share: int, promised: list[NodeId]
) -> None:
    """What is free for a peer with a share is never more than what is free, and never more than its share."""
    yours = min(yours, share)
    state = engine(slots, others=tuple(float(one) for one in range(others)), yours=yours)
    state = replace(state, promises=tuple(Promise(one, 0.2) for one in promised))
    found = seen(state, share, left=share - yours)
    free, found_free = slots - others - yours, found.slots - found.in_flight
    assert found.slots >= 1
    assert found_free <= max(free, 0)
    assert found.yours + max(found_free, 0) <= max(share, yours)
    assert len(found.frees_in_s) == found.in_flight - found.yours or found.yours == 0
    assert set(found.promises) <= set(state.promises)


def test_models_that_are_not_allowed_are_not_told() -> None:
    """Neither as replicas nor by the hashes of their prompts; an engine without any other is left out."""
    both = replace(engine(models=(M, OTHER)), prefixes=PrefixNews(1, 0, (7,)))
    found = seen(both, None, models=("m*",))
    assert [one.replica.model for one in found.replicas] == [M]
    assert found.prefixes is None
    table = RightsTable()
    table.follow({B: Rights(models=("m*",))})
    assert table.seen((engine(models=(OTHER,)),), B, None) == ()
    assert table.may_use(B, M)
    assert not table.may_use(B, OTHER)
    assert table.may_use(C, OTHER)


def test_the_catalogue_is_told_as_far_as_it_is_allowed() -> None:
    """Under a name of its own, which changes with what is in it and with the rights."""
    entries = (CatalogueEntry(M, tags='{"name":"m"}'), CatalogueEntry(OTHER, tags='{"name":"secret:70b"}'))
    whole = node_catalogue(A, (EngineCatalogue(GPU, "ollama", entries),))
    table = RightsTable()
    table.follow({B: Rights(models=("m",))})
    told = table.catalogue(whole, B)
    assert [entry.model for entry in told.engines[0].entries] == [M]
    assert told.content != whole.content
    assert table.catalogue(whole, B) is told
    assert table.catalogue(whole, C) is whole
    less = node_catalogue(A, (EngineCatalogue(GPU, "ollama", entries[1:]),))
    assert table.catalogue(less, B).engines[0].entries == ()
    table.follow({})
    assert table.catalogue(whole, B) is whole


# --- a scheduler ----------------------------------------------------------------------------------------


def told(slots: int, rights: Mapping[NodeId, Rights]) -> Told:
    """A node of so many slots, with its peers' rights."""
    conversation = Told(slots=slots)
    conversation.tell(RightsChanged(0.0, rights))
    return conversation


def guest(name: str, origin: NodeId = B, model: ModelName = M) -> Request:
    """A request of a peer's."""
    return ask(name, origin=origin, engine=GPU, model=model)


def verdict(commands: list[Command]) -> type:
    """Dispatch, or the class of the error."""
    (command,) = commands
    return type(command.error) if isinstance(command, Refuse) else type(command)


def test_a_peer_over_its_share_is_refused_and_may_come_again() -> None:
    """G14: the slots of this node stay for others, who are not concerned; what ended makes room."""
    node = told(3, {B: Rights(slots=1)})
    assert verdict(node.arrives(guest("one"))) is Dispatch
    assert verdict(node.arrives(guest("two"))) is SlotsTaken
    assert verdict(node.arrives(guest("other", C))) is Dispatch
    node.finishes("one", outcome=Outcome.CANCELLED)
    assert verdict(node.arrives(guest("three"))) is Dispatch


def test_a_model_that_a_peer_may_not_use_does_not_exist_for_it() -> None:
    """It is refused as one that is not here; others get it."""
    node = told(2, {B: Rights(models=("other*",))})
    assert verdict(node.arrives(guest("one"))) is ModelNotFound
    assert verdict(node.arrives(guest("two", C))) is Dispatch


def test_the_document_for_a_peer_follows_its_rights() -> None:
    """Slots and models of its share, from the next document on, and no word of what it may not use."""
    node = told(3, {B: Rights(slots=1)})

    def document(reader: NodeId = B) -> StateDocument:
        return node.scheduler.document_for(reader, "epoch", 1, "a", node.at)

    assert [(one.slots, one.in_flight) for one in document().engines] == [(1, 0)]
    assert [(one.slots, one.in_flight) for one in document(C).engines] == [(3, 0)]
    for name in ("a1", "a2", "a3", "a4"):
        node.arrives(ask(name))
    assert [(one.slots, one.in_flight) for one in document().engines] == [(1, 1)]
    assert [one.model for one in document().wanted] == [M]
    node.tell(RightsChanged(node.at, {B: Rights(models=("other*",))}))
    assert (document().engines, document().wanted) == ((), ())
    assert document().catalogue == document(C).catalogue  # nothing is listed
    node.tell(RightsChanged(node.at, {}))
    assert [one.slots for one in document().engines] == [3]


def test_a_prompt_that_waits_is_told_by_its_hash_only_to_who_may_use_all_models() -> None:
    """As the prompts that an engine holds: one with a part of the models hears how many wait, and no more."""
    node = told(1, {B: Rights(models=("m*",))})
    for name in ("a1", "a2"):
        node.arrives(ask(name, prefix=(7, 8, 9)))
    (narrow,), (wide,) = (node.scheduler.document_for(one, "e", 1, "a", node.at).wanted for one in (B, C))
    assert (narrow.count, narrow.prefixes) == (1, ())
    assert (wide.count, wide.prefixes) == (1, (8,))


@given(
    share=st.integers(1, 3),
    steps=st.lists(st.sampled_from(["b", "c", "own", "end", "share", "no share"]), max_size=60),
)
def test_a_peer_never_holds_more_than_its_share(share: int, steps: list[str]) -> None:
    """Whatever comes and ends in whatever order; its document never offers it more than is left."""
    node = told(4, {B: Rights(slots=share)})
    most: int | None = share
    held_before = 0
    for number, step in enumerate(steps):
        node.at += 0.1
        if step in ("b", "c"):
            node.arrives(guest(f"{step}{number}", B if step == "b" else C))
        elif step == "own":
            node.arrives(ask(f"own{number}"))
        elif step == "end" and (running := [*node.scheduler.running]):
            node.finishes(running[0].attempt.request, running[0].attempt.number)
        elif "share" in step:
            most = share if step == "share" else None
            node.tell(RightsChanged(node.at, {B: Rights(slots=most)}))
        held = sum(one.request.origin == B for one in node.scheduler.running)
        (state,) = node.scheduler.document_for(B, "epoch", number, "a", node.at).engines
        assert len(node.scheduler.running) <= 4
        assert state.yours == held
        if most is not None:
            assert state.slots - state.in_flight <= max(most - held, 0)
            if step == "b":
                assert held <= max(most, held_before)
        held_before = held

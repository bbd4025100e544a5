"""Engines of every kind with models of every content under one name: what may run where."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pairproxy.core.dialects import routes
from pairproxy.core.documents import EngineReport
from pairproxy.core.events import EngineReported
from pairproxy.core.models import EngineId, ModelName, NodeId, Place, Replica
from pairproxy.core.replicas import is_same
from tests.core.told import FAST, GPU, A, M, Told, ask, document, only_dispatch

KINDS = st.sampled_from(["ollama", "lmstudio", "llamacpp", "openai", "embedded"])
PATHS = st.sampled_from(sorted(routes.INFERENCE))
REPLICAS = st.builds(
    Replica,
    st.just(M),
    st.sampled_from(["sha256:1", "sha256:2", "openai:1"]),
    st.sampled_from([None, 50, 8192]),
    st.sampled_from(["", "f", "g"]),
    st.sampled_from([None, frozenset({"completion"}), frozenset({"completion", "tools", "audio", "insert"})]),
    st.sampled_from([None, None, "org/M"]),
)
ENGINES = st.tuples(KINDS, REPLICAS)
NEEDS = st.sampled_from([frozenset(), frozenset({"tools"})])
NAMED = Replica(M, "sha256:1", called="org/M")
PLAIN = Replica(M, "sha256:1")  # as a node tells it that knows no facts
BOTH = Replica(M, "sha256:1", facts="g")
OTHER_HASH = Replica(M, "sha256:2", facts="g")  # as a node tells it that hashes another way


def is_one_content(contents: list[Replica], *, exactly: bool) -> bool:
    """Whether there is one among them that each is the same as; of the others, each need not be.

    Sameness by digest or by facts is not passed on: BOTH is the same as PLAIN and as OTHER_HASH.
    """
    return not contents or any(
        all(is_same(wanted, content, exactly=exactly) for content in contents) for wanted in contents
    )


@example(
    ("ollama", NAMED),
    [("ollama", PLAIN), ("ollama", PLAIN), ("ollama", BOTH), ("ollama", OTHER_HASH)],
    "/api/chat",
    frozenset(),
)
@given(ENGINES, st.lists(ENGINES, max_size=4), PATHS, NEEDS)
def test_a_request_runs_only_where_it_may(
    own: tuple[str, Replica], others: list[tuple[str, Replica]], path: str, needs: frozenset[str]
) -> None:
    """Other nodes know the path, have the same content as this one or an alias, and can what it takes."""
    told = Told(speed=None)
    told.tell(EngineReported(0.0, EngineReport(GPU, own[0], "1", 1, ((own[1], True),))))
    known = {Place(A, GPU): own}
    for number, (kind, replica) in enumerate(others):
        node = NodeId(f"n{number}")
        facts: dict[str, Any] = {
            "facts": replica.facts,
            "capabilities": replica.capabilities,
            "called": replica.called,
        }
        known[Place(node, GPU)] = (kind, replica)
        told.hears(
            document(
                node,
                kind=kind,
                identity=replica.identity,
                context_tokens=replica.context_tokens,
                rates=FAST,
                **facts,
            )
        )
    request = ask("r", engine=GPU, path=path, needs=needs)
    candidates = only_dispatch(told.arrives(request)).decision.candidates
    assert candidates[0].place == Place(A, GPU), "the called engine may always be asked"
    exactly = routes.is_embedding(path)
    for candidate in candidates[1:]:
        kind, replica = known[candidate.place]
        assert kind in routes.engine_kinds(path)
        assert replica.capabilities is None or needs <= replica.capabilities
        assert replica.context_tokens in (None, 8192) or replica.context_tokens == own[1].context_tokens
        assert candidate.called == replica.called
        assert is_same(own[1], replica, exactly=exactly) or own[1].called is not None
    contents = [known[one.place][1] for one in candidates if known[one.place][1].called is None]
    assert is_one_content(contents, exactly=exactly)


@given(st.lists(ENGINES, min_size=1, max_size=4), PATHS)
def test_without_a_replica_here_the_others_are_not_mixed(
    others: list[tuple[str, Replica]], path: str
) -> None:
    """Where this node has none, one content is chosen, or it is the called engine's to refuse."""
    told = Told(speed=None)
    other = Replica(ModelName("other:latest"), "sha256:9")
    told.tell(EngineReported(0.0, EngineReport(EngineId("here"), "ollama", "1", 1, ((other, True),))))
    known = {}
    for number, (kind, replica) in enumerate(others):
        node = NodeId(f"n{number}")
        known[Place(node, GPU)] = replica
        facts: dict[str, Any] = {
            "facts": replica.facts,
            "capabilities": replica.capabilities,
            "called": replica.called,
        }
        told.hears(document(node, kind=kind, identity=replica.identity, **facts))
    places = [
        one.place
        for one in only_dispatch(
            told.arrives(ask("r", engine=EngineId("here"), path=path))
        ).decision.candidates
    ]
    if places == [Place(A, EngineId("here"))]:
        return
    contents = [known[place] for place in places if known[place].called is None]
    assert is_one_content(contents, exactly=routes.is_embedding(path))


def test_contents_are_compared_with_the_one_that_is_wanted() -> None:
    """Two that only a third makes the same serve together as long as that third is what is wanted."""

    def served(replicas: list[Replica]) -> set[int]:
        told = Told(speed=None)
        told.tell(EngineReported(0.0, EngineReport(GPU, "ollama", "1", 1, ((NAMED, True),))))
        for number, replica in enumerate(replicas):
            node = NodeId(f"n{number}")
            told.hears(document(node, kind="ollama", identity=replica.identity, facts=replica.facts))
        candidates = only_dispatch(told.arrives(ask("r", engine=GPU))).decision.candidates
        return {int(one.place.node[1:]) for one in candidates if one.place.node != A}

    assert served([PLAIN, PLAIN, BOTH, OTHER_HASH]) == {0, 1, 2, 3}
    assert served([PLAIN, PLAIN, OTHER_HASH]) == {0, 1}
    assert served([PLAIN, OTHER_HASH, OTHER_HASH]) == {1, 2}

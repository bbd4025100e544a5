from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.errors import SlotsTaken
from pairproxy.core.events import EngineLost, EngineReported, NodeForgotten, NodeLost, NodeReported
from pairproxy.core.knowledge import Knowledge
from pairproxy.core.models import EngineId, ModelName, Place, Request
from pairproxy.core.queue import Waiting
from pairproxy.core.rules import Rules
from tests.core.told import A, B, C, Told, ask, at, document, refused, report

REQUESTS = st.builds(
    lambda prompt, limit, model, path: ask(
        "r", prompt=prompt, limit=limit, model=ModelName(model), path=path
    ),
    st.integers(0, 6000),
    st.sampled_from([None, 10, 3000]),
    st.sampled_from(["m:latest", "other"]),
    st.sampled_from(["/v1/chat/completions", "/api/chat"]),
)


def test_a_request_is_here_until_it_is_over() -> None:
    """The id of a request that waits or runs is taken; that of one that ended is free."""
    told = Told()
    for name in ("runs", "waits"):
        told.arrives(ask(name))
        assert refused(told.arrives(ask(name))) == [(name, SlotsTaken)]
    told.finishes("runs")
    assert refused(told.arrives(ask("runs"))) == []


def test_a_node_is_alone_with_its_only_engine() -> None:
    """Until a second engine answers, or a peer is heard; then it looks for better places, and not after."""
    told, other = Told(), EngineId("other")
    alone = [told.scheduler._knows.is_alone]
    for step in (
        EngineReported(0.0, report(engine=other)),
        EngineLost(0.0, other),
        NodeReported(0.0, document(B)),
        NodeLost(0.0, B),
        NodeReported(0.0, document(C)),
        NodeForgotten(0.0, C),
    ):
        told.tell(step)
        alone.append(told.scheduler._knows.is_alone)
    assert alone == [True, False, True, False, True, False, True]


@given(
    requests=st.lists(REQUESTS, max_size=12),
    excluded=st.sampled_from([(), (at(B),), (at(B), at(C))]),
)
def test_the_queue_is_asked_about_in_one_go(requests: list[Request], excluded: tuple[Place, ...]) -> None:
    """Whoever has a place alone has one in the company of others, and the other way round."""
    knowledge = Knowledge(A, Rules())
    knowledge.nodes.report(document(B, context_tokens=2048), 0.0)
    knowledge.nodes.report(document(C, context_tokens=4096, kind="ollama"), 0.0)
    waiting = [Waiting(request, 0.0, excluded=frozenset(excluded)) for request in requests]
    finder = knowledge.place_finder(1.0)
    assert [finder(one) for one in waiting] == [knowledge.has_place(one, 1.0) for one in waiting]

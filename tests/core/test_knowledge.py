from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.errors import SlotsTaken
from pairproxy.core.knowledge import Knowledge
from pairproxy.core.models import ModelName, Place, Request
from pairproxy.core.queue import Waiting
from pairproxy.core.rules import Rules
from tests.core.told import A, B, C, Told, ask, at, document, refused

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


@given(
    requests=st.lists(REQUESTS, max_size=12),
    excluded=st.sampled_from([(), (at(B),), (at(B), at(C))]),
)
def test_the_queue_is_asked_about_in_one_go(requests: list[Request], excluded: tuple[Place, ...]) -> None:
    """Whoever has a place alone has one in the company of others, and the other way round."""
    knowledge = Knowledge(A, Rules())
    knowledge.nodes.report(document(B, context_tokens=2048), 0.0)
    knowledge.nodes.report(document(C, context_tokens=4096, kind="ollama"), 0.0)
    waiting = [Waiting(request, 0.0, excluded=set(excluded)) for request in requests]
    finder = knowledge.place_finder(1.0)
    assert [finder(one) for one in waiting] == [knowledge.has_place(one, 1.0) for one in waiting]

"""What is found for a whole queue at once; which places these are is shown by test_pricing."""

import itertools

from pairproxy.core.costs import Costs
from pairproxy.core.holders import MOST_KINDS, Holders
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import Place, Request
from pairproxy.core.nodes import NodeTable
from tests.core.told import GPU, A, B, C, ask, at, document, report


def known() -> Holders:
    """An own engine with a window of 500 tokens, a peer with 300 and one with a window that is not known."""
    local, nodes = LocalEngines(A, Costs()), NodeTable()
    local.report(report(kind="ollama", context_tokens=500))
    nodes.report(document(B, kind="ollama", context_tokens=300, capabilities=frozenset({"tools"})), 0.0)
    nodes.report(document(C, kind="openai"), 0.0)
    return Holders(local, nodes)


def places(holders: Holders, request: Request, *excluded: Place) -> list[Place]:
    """Where it may run."""
    return [place for place, _ in holders.places(request, excluded, 0.0)]


def test_what_is_looked_at_once_is_found_as_if_each_was_looked_at() -> None:
    """For every kind of request, in whatever order they come."""
    sizes, paths = (10, 200, 290, 400, 600), ("/api/chat", "/v1/chat/completions", "/v1/embeddings")
    needs, windows = (frozenset[str](), frozenset({"tools"}), frozenset({"vision"})), (None, 8192)
    asked = [
        ask(f"r{number}", prompt=size, limit=0, engine=GPU, path=path, needs=need, context_tokens=window)
        for number, (size, path, need, window) in enumerate(itertools.product(sizes, paths, needs, windows))
    ]
    each = [places(known(), request) for request in asked]
    holders = known()
    holders.hold()
    assert [places(holders, request) for request in asked] == each
    assert len({tuple(found) for found in each}) > 3


def test_excluded_places_are_left_out_of_one_request_only() -> None:
    """The next of its kind finds them."""
    holders = known()
    holders.hold()
    request = ask("r", engine=GPU, limit=0)
    assert places(holders, request, at(B)) == [at(A), at(C)]
    assert places(holders, request) == [at(A), at(B), at(C)]


def alone() -> tuple[LocalEngines, NodeTable, Holders]:
    """A node with one engine and no peer."""
    local, nodes = LocalEngines(A, Costs()), NodeTable()
    local.report(report(kind="ollama", context_tokens=500))
    return local, nodes, Holders(local, nodes)


def anew(holders: Holders, name: str, runner: str = "") -> list[tuple[Place, bool]]:
    """Where the next request may run, and whether its model is loaded there, in a moment of its own."""
    holders.let_go()
    holders.hold()
    asked = ask(name, engine=GPU, runner=runner)
    return [(place, state.is_loaded) for place, state in holders.places(asked, (), 0.0)]


def test_what_was_found_is_true_until_something_changes() -> None:
    """An engine that is lost, a peer that comes, a model that is loaded anew."""
    local, nodes, holders = alone()
    assert anew(holders, "r1") == anew(holders, "r2") == [(at(A), True)]
    holders.runners.sent(at(A), ask("r2", engine=GPU, runner="other"))
    assert anew(holders, "r3") == [(at(A), False)]
    nodes.report(document(B, kind="ollama"), 0.0)
    assert [place for place, _ in anew(holders, "r4")] == [at(A), at(B)]
    nodes.forget(B)
    assert [place for place, _ in anew(holders, "r5")] == [at(A)]
    local.lose(GPU)
    assert anew(holders, "r6") == []


def test_kinds_of_requests_are_not_remembered_without_end() -> None:
    """A client may send other options each time."""
    _, _, holders = alone()
    for number in range(3 * MOST_KINDS):
        anew(holders, f"r{number}", runner=f"{number}")
    assert len(holders._found) <= MOST_KINDS

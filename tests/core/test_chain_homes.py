"""Conversations: chains of a client of node A, whose own engine is slow, with a fast peer B."""

from pairproxy.core.chain_homes import MOST_PLANNED
from pairproxy.core.commands import Dispatch
from pairproxy.core.models import Decision, NodeId, Rates, Request
from pairproxy.core.rules import Rules
from tests.core.told import A, B, Told, ask, at, document, queued, sent

QUICK = Rates(prefill=5000.0, decode=115.0, beta=0.15)
MODEST = Rates(prefill=2000.0, decode=45.0, beta=0.15)
TOOLS = frozenset({"tools"})


def step(chain: int, number: int, prompt: int = 12_000) -> Request:
    """A step of an agent: its prompt goes on from that of the step before."""
    blocks = tuple(1000 * chain + block for block in range(prompt // 64 + 80 * number))
    tokens = prompt + 80 * 64 * number
    return ask(f"{chain}.{number}", prompt=tokens, limit=None, prefix=blocks, needs=TOOLS)


def cluster(policy: str = "fastest-finish") -> Told:
    """Node A with a modest engine of one slot, and B with a quick one."""
    told = Told(speed=MODEST, rules=Rules(policy))
    told.hears(document(B, rates=QUICK))
    return told


def where(told: Told, request: Request) -> NodeId | None:
    """The node to which a request goes at once; None: it waits."""
    went = [one for one in told.arrives(request) if isinstance(one, Dispatch)]
    return went[0].decision.place.node if went else None


def decision(told: Told, request: Request) -> Decision:
    """The decision by which a request goes at once."""
    (went,) = [one for one in told.arrives(request) if isinstance(one, Dispatch)]
    return went.decision


def test_a_chain_alone_stays_at_the_quick_node() -> None:
    """Each step of a single chain goes to the node where the whole of it is done soonest."""
    told = cluster()
    for number in range(4):
        told.hears(document(B, rates=QUICK, sequence=2 + number))
        assert where(told, step(1, number)) == B
        told.begins(f"1.{number}")
        told.at += 2.0
        told.finishes(f"1.{number}", tokens=500)
        told.at += 3.0


def test_of_five_chains_at_once_the_slow_node_gets_one() -> None:
    """Five chains begin at once: one goes to the slow node, one to the quick one, and three wait."""
    told = cluster()
    went = [where(told, step(chain, 0)) for chain in range(1, 6)]
    assert sorted(str(node) for node in went) == ["None", "None", "None", "a", "b"]


def test_a_chain_that_was_sent_away_comes_back_when_the_others_are_over() -> None:
    """At the boundary of two steps a chain leaves the slow node once the quick one has nothing to do."""
    told = cluster()
    went = {chain: where(told, step(chain, 0)) for chain in range(1, 6)}
    (away,) = [chain for chain, node in went.items() if node == A]
    told.at += 30.0
    for chain in range(1, 6):
        if chain != away:
            told.leaves(f"{chain}.0")
    told.begins(f"{away}.0")
    told.at += 60.0
    told.finishes(f"{away}.0", tokens=600)
    told.at += 5.0
    told.hears(document(B, rates=QUICK, sequence=2))
    assert where(told, step(away, 1)) == B


def test_a_step_waits_for_its_place_beside_a_free_slow_one() -> None:
    """While the quick node answers one of two chains, the other's next step waits though the slow is free."""
    told = cluster()
    assert where(told, step(1, 0)) == B
    told.begins("1.0")
    told.at += 3.0
    told.finishes("1.0", tokens=300)
    told.hears(document(B, rates=QUICK, sequence=2))
    assert where(told, step(2, 0)) == B
    assert queued(told.arrives(step(1, 1))) == [("1.1", 0)]
    told.begins("2.0")
    told.at += 4.0
    assert sent(told.hears(document(B, rates=QUICK, sequence=3))) == []
    assert sent(told.finishes("2.0", tokens=300)) == [("1.1", B)]


def test_a_decision_tells_what_its_chain_would_lose_elsewhere() -> None:
    """The candidates of a chain's step carry the seconds by which all would end later; the best has none."""
    told = cluster()
    made = decision(told, step(1, 0))
    losses = {one.place: one.chain_s for one in made.candidates}
    assert losses[at(B)] == 0.0
    assert losses[at(A)] > 1.0
    assert made.place == at(B)
    assert "chain" in made.reason


def test_what_is_no_chain_has_no_such_price() -> None:
    """A request without tools, name or a prompt that goes on is priced by itself."""
    told = cluster()
    made = decision(told, ask("one", prompt=12_000, prefix=tuple(range(180))))
    assert [one.chain_s for one in made.candidates] == [0.0, 0.0]


def test_policies_that_count_do_not_mind_chains() -> None:
    """Least-busy sends the steps of a chain in turn, as it does with any request."""
    told = cluster("least-busy")
    assert {where(told, step(chain, 0)) for chain in (1, 2)} == {A, B}


def test_more_chains_than_are_planned_are_served_all_the_same() -> None:
    """Of more chains at once than a plan holds, the free places get two and the others wait."""
    told = cluster()
    went = [where(told, step(chain, 0)) for chain in range(1, MOST_PLANNED + 10)]
    assert {A, B} <= set(went)
    assert went.count(None) == len(went) - 2

"""Where a request may run; the conversations of test_scheduler show what the prices lead to."""

from dataclasses import replace

import pytest

from pairproxy.core.avoidance import HOLD_BACK_S, Avoidance
from pairproxy.core.costs import PRIORS, Costs
from pairproxy.core.errors import SlotsTaken, Unreachable
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import EngineId, ModelName, Place, Request
from pairproxy.core.nodes import NodeTable
from pairproxy.core.pricing import Pricing
from pairproxy.core.promises import PromiseBook
from pairproxy.core.running import RunningTable
from tests.core.told import FAST, GPU, SLOW, A, B, C, M, Told, ask, at, document, only_dispatch, report

OTHER = EngineId("other")


class Known:
    """What a node knows, and its prices."""

    def __init__(self) -> None:
        self.local, self.nodes, self.avoidance = LocalEngines(A, Costs()), NodeTable(), Avoidance()
        self.pricing = Pricing(self.local, self.nodes, RunningTable(), self.avoidance, PromiseBook())

    def places(self, request: Request, time: float = 0.0) -> list[Place]:
        """Where it may run."""
        return [place for place, _ in self.pricing.places(request, (), time)]

    def candidates(self, request: Request, time: float = 0.0) -> list[Place]:
        """Where it may run, as priced."""
        found = self.pricing.candidates(request, (), self.pricing.occupancies(time), time)
        return [candidate.place for candidate in found]


def test_places_are_those_with_the_same_content() -> None:
    """This node's first, the called engine's before its others."""
    known = Known()
    known.local.report(report(engine=GPU))
    known.local.report(report(engine=OTHER))
    known.nodes.report(document(B), 0.0)
    known.nodes.report(document(C, identity="sha256:2"), 0.0)
    assert known.places(ask("r", engine=OTHER)) == [at(A, OTHER), at(A), at(B)]


def test_without_a_replica_of_its_own_the_content_that_most_slots_hold_is_wanted() -> None:
    """So all requests of this node get the same one."""
    known = Known()
    known.nodes.report(document(B, slots=1), 0.0)
    known.nodes.report(document(C, slots=4, identity="sha256:2"), 0.0)
    assert known.places(ask("r")) == [at(C)]


def test_a_place_that_failed_is_the_last_resort_and_one_that_said_not_now_is_waited_for() -> None:
    """A full one would only refuse again, but it is no reason to do with a worse one."""
    known = Known()
    known.nodes.report(document(B), 0.0)
    known.nodes.report(document(C), 0.0)
    known.avoidance.blame(at(B), Unreachable("gone"), 0.0)
    assert known.candidates(ask("r"), 0.1) == [at(C)]
    known.avoidance.blame(at(C), SlotsTaken("taken"), 0.1)
    assert known.candidates(ask("r"), 0.2) == [at(C)]
    assert known.pricing.occupancies(0.2)[at(C)].wait_s == pytest.approx(0.1 + HOLD_BACK_S - 0.2)
    assert known.candidates(ask("r"), 1.5) == [at(B), at(C)]


def test_others_requests_at_a_peer_age_with_its_document() -> None:
    """What was to end in five seconds ends in three, two seconds later."""
    known = Known()
    known.nodes.report(document(B, frees=(5.0,)), 10.0)
    assert known.pricing.occupancies(12.0)[at(B)].wait_s == 3.0


def test_a_peer_tells_its_own_speed() -> None:
    """Its word counts for its models, and what was measured here for ours."""
    known = Known()
    known.local.report(report())
    known.nodes.report(document(B, rates=SLOW), 0.0)
    assert known.pricing.rates(at(B), M) == SLOW
    assert known.pricing.known_places(0.0)[at(B)] == (1, {M: SLOW})
    assert set(known.pricing.known_places(0.0)) == {at(A), at(B)}
    assert set(known.pricing.known_places(9.0)) == {at(A)}


def test_a_model_is_known_while_any_node_was_seen_with_it() -> None:
    """Also one that is silent just now, unless the request must stay here."""
    known = Known()
    known.nodes.report(document(B, rates=FAST), 0.0)
    assert known.pricing.is_known(ask("r"))
    assert not known.pricing.is_known(ask("r", local_only=True))
    assert not known.pricing.is_known(ask("r", model=ModelName("other")))


def test_the_same_content_under_another_hash_is_the_same() -> None:
    """As nodes of different age list it; but vectors come from equal hashes only."""
    known = Known()
    known.local.report(report(facts="f"))
    known.nodes.report(document(B, identity="sha256:2", facts="f"), 0.0)
    known.nodes.report(document(C, identity="sha256:3", facts="g"), 0.0)
    assert known.places(ask("r", engine=GPU)) == [at(A), at(B)]
    assert known.places(ask("r", engine=GPU, path="/v1/embeddings")) == [at(A)]


def test_an_alias_joins_whatever_the_name_means_here() -> None:
    """On this node or another; what differs from this node's own content stays out all the same."""
    known = Known()
    known.local.report(report(engine=OTHER, kind="openai", identity="openai:1", called="org/M"))
    known.local.report(report())
    known.nodes.report(document(B, kind="openai", identity="openai:2", called="m-large"), 0.0)
    known.nodes.report(document(C, identity="sha256:2"), 0.0)
    assert known.places(ask("r", engine=GPU)) == [at(A), at(A, OTHER), at(B)]
    assert known.places(ask("r", engine=OTHER)) == [at(A, OTHER), at(A), at(B)]


def test_with_nothing_but_an_alias_here_the_most_slots_say_what_is_meant() -> None:
    """Two contents that differ are not mixed by a name that could mean either."""
    known = Known()
    known.local.report(report(kind="openai", identity="openai:1", called="org/M"))
    assert known.places(ask("r", engine=GPU)) == [at(A)]
    known.nodes.report(document(B, slots=1), 0.0)
    known.nodes.report(document(C, slots=4, identity="sha256:2"), 0.0)
    assert known.places(ask("r", engine=GPU)) == [at(A), at(C)]
    assert known.places(ask("r", engine=GPU, path="/v1/embeddings")) == [at(A)]


def test_a_candidate_says_by_which_name_its_engine_knows_the_model() -> None:
    """So that the node of that engine can ask by it."""
    known = Known()
    known.local.report(report())
    known.local.report(report(engine=OTHER, kind="openai", identity="openai:1", called="org/M"))
    found = known.pricing.candidates(ask("r", engine=GPU), (), known.pricing.occupancies(0.0), 0.0)
    assert [candidate.called for candidate in found] == [None, "org/M"]


def test_a_path_goes_to_engines_that_know_it() -> None:
    """OpenAI's to all kinds, Ollama's to those that speak it."""
    known = Known()
    known.local.report(report(kind="ollama"))
    known.nodes.report(document(B, kind="openai", called="org/M"), 0.0)
    known.nodes.report(document(C, kind="ollama"), 0.0)
    assert known.places(ask("r", engine=GPU)) == [at(A), at(B), at(C)]
    assert known.places(ask("r", engine=GPU, path="/api/chat")) == [at(A), at(C)]


def test_what_no_other_node_can_answer_is_the_called_engines_to_answer() -> None:
    """Its error is the authoritative one: for a path, a version and a model that only others have."""
    known = Known()
    known.local.report(report(kind="ollama", model=ModelName("other:latest")))
    known.nodes.report(document(B, kind="openai"), 0.0)
    assert known.places(ask("r", engine=GPU)) == [at(B)]
    request = ask("r", engine=GPU, path="/api/chat")
    assert known.places(request) == [at(A)]
    assert known.pricing.is_known(request)
    known.nodes.report(document(B, kind="ollama", version="0.13.0", sequence=2), 0.0)
    assert known.places(ask("r", engine=GPU, path="/v1/messages")) == [at(A)]
    assert known.places(request) == [at(B)]


def test_the_called_engine_is_asked_whatever_we_think_of_it() -> None:
    """Its window may be too small and its abilities too few; it knows better, and says it in its words."""
    known = Known()
    known.local.report(report(kind="ollama", context_tokens=10, capabilities=frozenset()))
    known.local.report(report(engine=OTHER, kind="ollama", context_tokens=9, capabilities=frozenset()))
    assert known.places(ask("r", engine=GPU, needs=frozenset({"tools"}))) == [at(A)]


@pytest.mark.parametrize(("here", "there", "goes"), [(500, 300, True), (500, 100, False), (100, 100, True)])
def test_a_window_must_hold_the_request_or_as_much_as_here(here: int, there: int, goes: bool) -> None:
    """200 tokens in and out: a narrower window elsewhere would cut what this machine would not."""
    known = Known()
    known.local.report(report(context_tokens=here))
    known.nodes.report(document(B, context_tokens=there), 0.0)
    assert (at(B) in known.places(ask("r", engine=GPU))) is goes


def test_what_stays_is_the_called_engines_alone() -> None:
    """Not even another engine of this machine may have it; what is only local may go there."""
    known = Known()
    known.local.report(report())
    known.local.report(report(engine=OTHER))
    known.nodes.report(document(B), 0.0)
    assert known.places(ask("r", engine=OTHER, stays="a stored conversation")) == [at(A, OTHER)]
    assert known.places(ask("r", engine=OTHER, local_only=True)) == [at(A, OTHER), at(A)]
    assert known.places(ask("r", engine=OTHER, stays="cloud", model=ModelName("new"))) == [at(A, OTHER)]


def test_a_model_that_must_be_loaded_anew_is_a_cold_one() -> None:
    """The node whose loaded window fits costs no load, the other does, and the other way round next."""
    known = Known()
    known.local.report(report(kind="ollama", context_tokens=4096))
    known.nodes.report(document(B, kind="ollama", context_tokens=8192, rates=replace(FAST, load_s=9.0)), 0.0)

    def loads(tokens: int | None) -> dict[Place, float]:
        request = ask("r", engine=GPU, path="/api/chat", context_tokens=tokens, runner=f"num_ctx={tokens}")
        found = known.pricing.candidates(request, (), known.pricing.occupancies(0.0), 0.0)
        return {candidate.place: candidate.load_s for candidate in found}

    assert loads(8192) == {at(A): 5.0, at(B): 0.0}
    assert loads(4096) == {at(A): 0.0, at(B): 9.0}
    assert loads(None) == {at(A): 0.0, at(B): 0.0}


def test_what_a_reload_throws_out_counts_too() -> None:
    """Somebody will want it back: where nothing is lost, the same load is the better one."""
    known = Known()
    known.local.report(report(kind="ollama", context_tokens=4096))
    known.nodes.report(document(B, kind="ollama", context_tokens=4096, rates=PRIORS["ollama"]), 0.0)
    asked = ask("r", engine=GPU, path="/api/chat", context_tokens=8192, runner="num_ctx=8192")
    known.pricing.holders.runners.sent(at(A), asked)
    other = replace(asked, context_tokens=32768, runner="num_ctx=32768")
    found = known.pricing.candidates(other, (), known.pricing.occupancies(0.0), 0.0)
    assert {one.place: (one.load_s, one.margin_s) for one in found} == {at(A): (5.0, 5.0), at(B): (5.0, 0.0)}


def test_a_single_request_pays_for_those_whose_reading_it_holds_up() -> None:
    """They lose as much as it does; one that waits for a slot, or is alone there, holds up none."""
    told = Told(slots=2, speed=FAST)
    told.arrives(ask("r1", prompt=2000, client="x"))
    candidates = only_dispatch(told.arrives(ask("r2", prompt=500, client="y"))).decision.candidates
    assert [(one.read_s, one.prefill_s, one.delay_s) for one in candidates] == [
        pytest.approx((0.5, 1.0, 0.5), rel=0.01)
    ]

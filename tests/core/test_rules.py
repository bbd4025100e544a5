import pytest

from pairproxy.core.errors import QueueTimeout, Unreachable
from pairproxy.core.events import DrainEnded, RulesChanged
from pairproxy.core.rules import Rules
from tests.core.told import A, B, C, M, Told, ask, document, refused, sent


@pytest.mark.parametrize(("policy", "is_rescuing"), [("fastest-finish", True), ("least-busy", False)])
def test_only_a_policy_that_compares_seconds_takes_stragglers_back(policy: str, is_rescuing: bool) -> None:
    """Another one would send them anywhere."""
    assert Rules(policy).is_rescuing is is_rescuing
    assert not Rules(policy, rescue=False).is_rescuing


def test_another_policy_places_what_waits_already() -> None:
    """What waited for a fast peer goes to the slow node at once when the policy compares no seconds."""
    told = Told()
    told.hears(document(B, frees=(1.0,)))
    assert sent(told.arrives(ask("waits"))) == []
    assert sent(told.tell(RulesChanged(told.at, Rules("least-busy")))) == [("waits", A)]


@pytest.mark.parametrize(("patterns", "goes"), [((), [("waits", B)]), ((str(M),), [])])
def test_a_model_that_must_stay_here_does_not_leave_from_the_queue(
    patterns: tuple[str, ...], goes: list[tuple[str, str]]
) -> None:
    """What waits when its model is made local_only goes to no peer any more, though one comes free first."""
    told = Told()
    told.arrives(ask("runs"))
    told.arrives(ask("waits"))
    told.tell(RulesChanged(told.at, Rules(local_only=patterns)))
    assert sent(told.hears(document(B))) == goes


def test_a_model_that_must_stay_here_is_not_tried_again_elsewhere() -> None:
    """What runs at a peer when its model is made local_only, and fails there, comes back to this node."""
    told = Told()
    told.hears(document(B))
    told.hears(document(C))
    assert sent(told.arrives(ask("moves"))) == [("moves", B)]
    told.tell(RulesChanged(told.at, Rules(local_only=(str(M),))))
    assert sent(told.fails("moves", Unreachable("gone"))) == [("moves", A)]


def test_patience_that_was_shortened_ends_what_waited_longer() -> None:
    """A shorter queue_timeout_s counts from a request's arrival, and what runs is left alone."""
    told = Told()
    told.arrives(ask("runs"))
    told.arrives(ask("waits"))
    told.passes(20.0)
    assert refused(told.tell(RulesChanged(told.at, Rules(queue_timeout_s=10.0)))) == [("waits", QueueTimeout)]
    assert len(told.scheduler.running) == 1


def test_a_queue_that_is_closed_stays_so() -> None:
    """Rules that come while the daemon stops let nothing wait again."""
    told = Told()
    told.tell(DrainEnded(told.at))
    told.tell(RulesChanged(told.at, Rules()))
    assert told.scheduler.is_draining
    assert refused(told.arrives(ask("late")))

from dataclasses import replace

import pytest

from pairproxy.core.models import Candidate, NodeId
from pairproxy.core.policies import POLICIES, Policy, fastest_finish, least_busy, local_only
from tests.core.told import at


def candidate(
    name: str,
    *,
    wait: float = 0.0,
    service: float = 1.0,
    margin: float = 0.0,
    in_flight: int = 0,
    slots: int = 4,
) -> Candidate:
    """A place with these prices."""
    return Candidate(at(NodeId(name)), wait, 0.0, 0.0, service, in_flight, slots, margin)


def test_fastest_finish_counts_waiting_and_working() -> None:
    """A place that is busy may still be the first to finish."""
    slow, busy = candidate("slow", service=9.0), candidate("busy", wait=3.0, service=2.0)
    pick, reason = fastest_finish([slow, busy], 0)
    assert pick is busy
    assert "5.00 s" in reason


def test_fastest_finish_reckons_with_a_long_reply() -> None:
    """What is a little sooner on average, but much later if the reply is long, is not chosen."""
    risky, safe = (
        candidate("risky", service=4.0, margin=9.0),
        candidate("safe", wait=3.0, margin=2.0, service=1.5),
    )
    assert fastest_finish([risky, safe], 0)[0] is safe


def test_fastest_finish_reckons_with_what_others_lose() -> None:
    """A place that would read again what another one holds is chosen only if that is worth it."""
    home, other = candidate("home", wait=2.0), candidate("other")
    assert fastest_finish([home, replace(other, affinity_s=1.9)], 0)[0].place.node == "other"
    assert fastest_finish([home, replace(other, affinity_s=2.1)], 0)[0] is home


def test_least_busy_counts_requests_per_slot() -> None:
    """Free places first, however much the others have."""
    big, small = candidate("big", in_flight=6, slots=16), candidate("small", in_flight=1, slots=2)
    full = candidate("full", wait=0.1, in_flight=1, slots=8)
    assert least_busy([small, full, big], 0)[0] is big
    assert least_busy([full, candidate("fuller", wait=9.0, in_flight=8, slots=8)], 0)[0] is full


@pytest.mark.parametrize("policy", [fastest_finish, least_busy])
def test_ties_take_turns(policy: Policy) -> None:
    """Equal places are chosen one after the other, so that no order of a list decides."""
    equal = [candidate(name) for name in "abc"]
    assert [policy(equal, turn)[0].place.node for turn in range(6)] == [*"abcabc"]


def test_a_busy_place_keeps_its_turn() -> None:
    """While one of three is busy, the others go on in the same order."""
    places = [candidate("a", wait=1.0, in_flight=4), candidate("b"), candidate("c")]
    assert [least_busy(places, turn)[0].place.node for turn in range(3)] == ["b", "b", "c"]


def test_local_only_says_so() -> None:
    """It is given this machine's places and picks the best of them."""
    assert local_only([candidate("a", service=2.0), candidate("a")], 0)[1] == "this machine only"


def test_every_policy_has_its_name() -> None:
    """The names are what a person writes in the settings."""
    assert set(POLICIES) == {"fastest-finish", "least-busy", "local-only"}

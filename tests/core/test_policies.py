from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from pairproxy.core.commands import Command
from pairproxy.core.models import Candidate, ModelName, NodeId, Place
from pairproxy.core.policies import (
    POLICIES,
    Asked,
    Policy,
    at_random,
    fastest_finish,
    least_busy,
    local_only,
    power_of_two,
    prefix_aware,
    round_robin,
)
from pairproxy.core.rules import Rules
from tests.core.told import FAST, SLOW, A, B, C, Told, ask, at, document, sent

EQUAL = "abcdefgh"


def asked(turn: int = 0, **facts: Any) -> Asked:
    """A question without a prefix; ``prefix`` and ``model`` are the request's, the rest the question's."""
    request = ask("r", prefix=facts.pop("prefix", ()), model=facts.pop("model", ModelName("m:latest")))
    return Asked(request, facts.pop("random", Random(0)), turn, **facts)


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


def test_who_would_hold_up_readers_goes_where_nobody_reads() -> None:
    """Unless that is slower by more than they would lose."""
    held_up = replace(candidate("a", service=1.0), delay_s=0.5)
    assert fastest_finish([held_up, candidate("b", service=1.4)], asked())[0].place.node == "b"
    assert fastest_finish([held_up, candidate("b", service=1.6)], asked())[0].place.node == "a"


def test_fastest_finish_counts_waiting_and_working() -> None:
    """A place that is busy may still be the first to finish."""
    slow, busy = candidate("slow", service=9.0), candidate("busy", wait=3.0, service=2.0)
    pick, reason = fastest_finish([slow, busy], asked(0))
    assert pick is busy
    assert "5.00 s" in reason


def test_fastest_finish_reckons_with_a_long_reply() -> None:
    """What is a little sooner on average, but much later if the reply is long, is not chosen."""
    risky, safe = (
        candidate("risky", service=4.0, margin=9.0),
        candidate("safe", wait=3.0, margin=2.0, service=1.5),
    )
    assert fastest_finish([risky, safe], asked(0))[0] is safe


def test_fastest_finish_reckons_with_what_others_lose() -> None:
    """A place that would read again what another one holds is chosen only if that is worth it."""
    home, other = candidate("home", wait=2.0), candidate("other")
    assert fastest_finish([home, replace(other, affinity_s=1.9)], asked(0))[0].place.node == "other"
    assert fastest_finish([home, replace(other, affinity_s=2.1)], asked(0))[0] is home


def test_least_busy_counts_requests_per_slot() -> None:
    """Free places first, however much the others have."""
    big, small = candidate("big", in_flight=6, slots=16), candidate("small", in_flight=1, slots=2)
    full = candidate("full", wait=0.1, in_flight=1, slots=8)
    assert least_busy([small, full, big], asked(0))[0] is big
    assert least_busy([full, candidate("fuller", wait=9.0, in_flight=8, slots=8)], asked(0))[0] is full


@pytest.mark.parametrize("policy", [fastest_finish, least_busy])
def test_ties_take_turns(policy: Policy) -> None:
    """Equal places are chosen one after the other, so that no order of a list decides."""
    equal = [candidate(name) for name in "abc"]
    assert [policy(equal, asked(turn))[0].place.node for turn in range(6)] == [*"abcabc"]


def test_a_busy_place_keeps_its_turn() -> None:
    """While one of three is busy, the others go on in the same order."""
    places = [candidate("a", wait=1.0, in_flight=4), candidate("b"), candidate("c")]
    assert [least_busy(places, asked(turn))[0].place.node for turn in range(3)] == ["b", "b", "c"]


def test_local_only_says_so() -> None:
    """It is given this machine's places and picks the best of them."""
    assert local_only([candidate("a", service=2.0), candidate("a")], asked(0))[1] == "this machine only"


def home(prefix: tuple[int, ...], nodes: str = EQUAL, **facts: Any) -> str:
    """Where a prompt goes among idle nodes."""
    return prefix_aware([candidate(name) for name in nodes], asked(prefix=prefix, **facts))[0].place.node


def test_prompts_that_begin_alike_go_to_one_node() -> None:
    """Whatever follows, whoever has its turn, however the nodes are listed; all nodes are homes of some."""
    for start in range(20):
        homes = {home((start, rest), nodes, turn=start) for rest in (1, 2) for nodes in (EQUAL, EQUAL[::-1])}
        assert len(homes) == 1
    assert {home((start,)) for start in range(200)} == {*EQUAL}


def test_a_node_that_leaves_moves_its_own_prompts_only() -> None:
    """The others' caches stay worth what they are."""
    for start in range(50):
        before = home((start,))
        others = EQUAL.replace("a", "")
        assert (home((start,), others) == before) == (before != "a")


@pytest.mark.parametrize(("length", "block"), [(256, 0), (511, 0), (512, 1), (1024, 2), (10**6, 2)])
def test_so_many_characters_of_a_prompt_are_hashed(length: int, block: int) -> None:
    """Whole blocks of 256 of them, or as many as there are; a block's hash stands for all before it."""
    for changed in range(3):
        prompts = [tuple(salt if place == changed else place for place in range(3)) for salt in range(9, 40)]
        homes = {home(prompt, prefix_length=length) for prompt in prompts}
        assert (len(homes) > 1) == (changed == block)


def test_at_its_threshold_a_home_gets_no_more() -> None:
    """Then it is the node with most free slots; below, its home although others are idle."""
    prefix = (7,)
    name = home(prefix, "abc")
    for in_flight, goes_home in ((2, True), (3, False)):
        places = [
            candidate(one, in_flight=in_flight if one == name else 1, slots=9 if one == "b" else 4, wait=9.0)
            if one == name
            else candidate(one, in_flight=1, slots=8 if one < "c" else 4)
            for one in "abc"
        ]
        pick = prefix_aware(places, asked(prefix=prefix, concurrency_threshold=3))[0]
        assert (pick.place.node == name) == goes_home
        if not goes_home:
            assert pick.slots == max(one.slots for one in places if one.is_free)


def test_a_prompt_too_short_to_be_hashed_goes_to_most_free_slots() -> None:
    """Else all of them would go to one node."""
    places = [
        candidate("a", slots=2),
        candidate("b", in_flight=5, slots=8),
        candidate("c", in_flight=6, slots=8),
    ]
    assert prefix_aware(places, asked())[0].place.node == "b"


def test_power_of_two_takes_the_better_of_two() -> None:
    """The busiest is never taken, and the others are with different luck."""
    places = [candidate(name, in_flight=number) for number, name in enumerate("abcd")]
    random = Random(1)
    picks = Counter(power_of_two(places, asked(random=random))[0].place.node for _ in range(300))
    assert set(picks) == {*"abc"}
    assert picks[NodeId("a")] > picks[NodeId("b")] > picks[NodeId("c")]
    assert power_of_two(places[:1], asked())[0] is places[0]


def test_random_takes_each_free_place_about_as_often() -> None:
    """And no busy one."""
    places = [candidate("a"), candidate("b"), candidate("c", wait=1.0)]
    random = Random(1)
    picks = Counter(at_random(places, asked(random=random))[0].place.node for _ in range(300))
    assert set(picks) == {*"ab"}
    assert min(picks.values()) > 100


def test_round_robin_takes_who_was_not_used_for_longest() -> None:
    """Also while one of them is busy, which comes first when it is free again."""
    a, b, c = (candidate(name) for name in "abc")
    used: dict[Place, int] = {}

    def picks(places: Sequence[Candidate], count: int) -> list[str]:
        taken = []
        for turn in range(len(used), len(used) + count):
            pick = round_robin(places, asked(turn, used=used))[0]
            used[pick.place] = max(used.values(), default=0) + 1
            taken.append(str(pick.place.node))
        return taken

    first = picks([a, b, c], 6)
    assert (first[:3], sorted(first[:3])) == (first[3:], [*"abc"])
    b = replace(b, wait_s=1.0)
    assert set(picks([a, b, c], 4)) == {"a", "c"}
    assert picks([a, replace(b, wait_s=0.0), c], 1) == ["b"]


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in {"fastest-finish", "local-only"}])
def test_policies_that_count_use_free_places_first(name: str) -> None:
    """In a conversation: three nodes of one slot each work at once, and a fourth request waits."""
    told = Told(speed=SLOW, rules=Rules(name))
    told.hears(document(B, rates=FAST))
    told.hears(document(C, rates=FAST))
    places = [place for number in range(3) for _, place in sent(told.arrives(ask(f"r{number}")))]
    assert sorted(places) == [A, B, C]
    assert sent(told.arrives(ask("r3"))) == []
    assert sent(told.finishes("r1")) == [("r3", places[1])]


def test_what_is_drawn_comes_from_the_given_random() -> None:
    """Two schedulers with the same seed decide the same."""

    def decisions(seed: int) -> list[Command]:
        told = Told(slots=20, rules=Rules("random"), random=Random(seed))
        told.hears(document(B, slots=20))
        return [one for number in range(20) for one in told.arrives(ask(f"r{number}"))]

    assert decisions(1) == decisions(1)
    assert sent(decisions(1)) != sent(decisions(2))


def test_every_policy_has_its_name() -> None:
    """The names are what a person writes in the settings."""
    assert [*POLICIES] == [
        "fastest-finish", "least-busy", "prefix-aware", "power-of-two", "round-robin", "random", "local-only",
    ]  # fmt: skip

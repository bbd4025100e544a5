from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.accounting.chains import follows
from pairproxy.core.accounting.losses import Losses, split
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.runs import group_runs
from pairproxy.core.accounting.works import works_of
from pairproxy.core.errors import BrokenReply
from pairproxy.core.models import ModelName, Rates, Usage
from tests.core.accounting.conversation import A, B, Told, asked, at, dispatch, served

MODEL = ModelName("m")
RATES = Rates(prefill=100.0, decode=10.0, beta=0.0, load_s=3.0)
PLACES = {at(A): (1, {MODEL: RATES}), at(B): (1, {MODEL: RATES})}


def lost(records: list[RequestRecord], seconds: float) -> Losses:
    """Where so many seconds of a run of these records went; two equal nodes of one slot."""
    (run,) = group_runs(records, idle_gap_s=1e6)
    done = [record for record in run.records if record.final]
    return split(run, works_of(done, follows(done)), PLACES, seconds)


def test_a_node_that_is_done_early_costs_half_the_rest() -> None:
    """Of two equal nodes one has nothing to do for the last ten seconds: five seconds were lost."""
    found = lost([served("a", 0, 0, 20), served("b", 0, 0, 10, B)], 5.0)
    assert found == Losses(tail_idle_s=5.0)


def test_a_node_that_is_kept_free_while_requests_wait_is_the_plans() -> None:
    """The other node was free while the second request waited for the first node."""
    found = lost([served("a", 0, 0, 10), served("b", 0, 10, 20)], 10.0)
    assert (found.waiting_by_plan_s, found.tail_idle_s) == (5.0, 5.0)


def test_what_no_schedule_avoids_is_no_loss() -> None:
    """Where less was lost than the causes come to, each has less."""
    found = lost([served("a", 0, 0, 10), served("b", 0, 10, 20)], 4.0)
    assert (found.waiting_by_plan_s, found.tail_idle_s, found.total_s) == (2.0, 2.0, 4.0)


def test_a_model_that_had_to_be_loaded() -> None:
    """Three of ten seconds on one of two nodes."""
    told = Told()
    told.arrived(0.0, "a", dispatch("a", A))
    told.arrived(0.0, "b", dispatch("b", B))
    told.finished(10.0, "a", usage=Usage(10, None, 70, load_s=3.0))
    told.finished(10.0, "b", usage=Usage(10, None, 100))
    assert lost([*told.ledger.records], 2.0).cold_load_s == pytest.approx(1.5)
    assert lost([*told.ledger.records], 2.0).prediction_error_s == pytest.approx(0.5)


def test_an_attempt_that_led_to_nothing_is_waste() -> None:
    """Four seconds on one of two nodes, and the other had nothing to do the while."""
    told = Told()
    told.arrived(0.0, "a", dispatch("a", A))
    told.failed(4.0, "a", BrokenReply("It broke off."), dispatch("a", B, number=2))
    told.finished(10.0, "a", number=2, usage=Usage(10, None, 60))
    found = lost([*told.ledger.records], 7.0)
    assert found.rescue_waste_s == pytest.approx(2.0)
    assert found.tail_idle_s == pytest.approx(5.0)


def test_what_the_engine_did_not_do_was_the_way() -> None:
    """It says that it worked six of the eight seconds."""
    told = Told()
    told.arrived(0.0, "a", dispatch("a", A))
    told.arrived(0.0, "b", dispatch("b", B))
    for name in "ab":
        told.finished(8.0, name, usage=Usage(10, None, 50, prefill_s=1.0, decode_s=5.0))
    assert lost([*told.ledger.records], 3.0) == Losses(transport_s=2.0, prediction_error_s=1.0)


def test_reading_the_same_beginning_twice() -> None:
    """Both nodes read the 640 shared tokens; one of them would have done."""
    told = Told()
    for name, node in (("a", A), ("b", B)):
        told.arrived(0.0, asked(name, prefix=tuple(range(10))), dispatch(name, node))
        told.finished(10.0, name, usage=Usage(700, 0, 30))
    found = lost([*told.ledger.records], 8.0)
    assert found.duplicated_prefill_s == pytest.approx(700 / 100 / 2, rel=0.1)
    assert found.total_s == pytest.approx(8.0)


@given(st.integers(), st.integers(1, 12), st.floats(0.0, 100.0))
@settings(deadline=None)
def test_they_add_up_and_none_is_negative(seed: int, count: int, seconds: float) -> None:
    """Whatever happened, the causes come to what was lost."""
    random = Random(seed)
    told = Told()
    at_s = 0.0
    for index in range(count):
        name, blocks = f"r{index}", tuple(range(random.randint(0, 4)))
        at_s += random.choice([0.0, random.uniform(0.0, 5.0)])
        told.arrived(at_s, asked(name, prefix=blocks, run="job"), dispatch(name, random.choice([A, B])))
        number = 1
        if random.random() < 0.3:
            at_s += random.uniform(0.0, 3.0)
            number = 2
            told.failed(at_s, name, BrokenReply("b"), dispatch(name, random.choice([A, B]), number=number))
        load_s = random.choice([None, random.uniform(0.0, 9.0)])
        timings = random.choice([None, random.uniform(0.0, 2.0)])
        usage = Usage(
            random.randint(1, 500), random.choice([None, 3]), random.randint(0, 90), timings, timings, load_s
        )
        at_s += random.uniform(0.0, 9.0)
        told.finished(at_s, name, number=number, usage=usage)
    found = lost([*told.ledger.records], seconds)
    assert all(part >= 0.0 for _, part in found.items())
    assert found.total_s == pytest.approx(seconds, abs=1e-9)

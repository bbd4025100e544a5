import pytest

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.runs import group_runs
from pairproxy.core.accounting.works import Places
from pairproxy.core.models import ModelName, Rates
from pairproxy.core.whatif.company import as_in_the_run, model_error
from pairproxy.core.whatif.pieces import pieces_of
from tests.core.accounting.conversation import A, at, served

PLACES: Places = {at(A): (2, {ModelName("m"): Rates(10.0, 10.0, beta=1.0)})}


def error(*records: RequestRecord) -> float | None:
    """How far the model is off on a run of these."""
    (run,) = group_runs(records, idle_gap_s=1e6)
    return model_error(pieces_of(run), PLACES)


def test_company_is_reckoned_with() -> None:
    """Alone eleven seconds; beside another one twice the reading and twice the writing."""
    assert error(served("a", 0, 0, 11)) == pytest.approx(0.0)
    assert error(served("a", 0, 0, 22), served("b", 0, 0, 22)) == pytest.approx(0.0)


def test_too_long_and_too_short_do_not_cancel_out() -> None:
    """One took half of what the model says, one half more: a third of all they took is wrong."""
    assert error(served("a", 0, 0, 5.5), served("b", 30, 30, 46.5)) == pytest.approx(11.0 / 22.0)


def test_of_a_place_that_is_gone_nothing_is_known() -> None:
    """No error is made up."""
    (run,) = group_runs([served("a", 0, 0, 11)])
    assert model_error(pieces_of(run), {}) is None


def test_a_place_is_as_fast_as_it_was_in_the_run() -> None:
    """Twice as slow as believed is half the rates; more than that is not believed, and two say nothing."""
    for took_s, count, rate in ((22.0, 3, 5.0), (55.0, 3, 5.0), (22.0, 2, 10.0), (8.8, 3, 12.5)):
        records = [served(f"r{number}", 100 * number, 100 * number, 100 * number + took_s)
                   for number in range(count)]  # fmt: skip
        (run,) = group_runs(records, idle_gap_s=1e6)
        _, rates = as_in_the_run(pieces_of(run), PLACES)[at(A)]
        assert rates[ModelName("m")].decode == pytest.approx(rate)
        assert rates[ModelName("m")].prefill == pytest.approx(rate)

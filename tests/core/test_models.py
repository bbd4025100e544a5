import pytest

from pairproxy.core.models import Candidate, Rates
from tests.core.told import A, at


def test_company_shares_the_engine() -> None:
    """With c running, all together decode c / (1 + beta * (c - 1)) times as fast as one alone."""
    rates = Rates(prefill=1.0, decode=1.0, beta=0.15)
    assert rates.share(0) == rates.share(1) == 1.0
    assert 4 * rates.share(4) == pytest.approx(4 / 1.45)
    assert Rates(1.0, 1.0, 1.0).share(8) * 8 == pytest.approx(1.0)


def test_a_candidates_seconds_add_up() -> None:
    """Waiting and service make the finish; the margin is no part of what is expected."""
    one = Candidate(
        at(A), wait_s=1.0, load_s=2.0, prefill_s=3.0, decode_s=4.0, in_flight=0, slots=1, margin_s=9.0
    )
    assert (one.service_s, one.finish_s, one.is_free) == (9.0, 10.0, False)

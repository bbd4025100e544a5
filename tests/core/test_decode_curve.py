"""What is learned of an engine from whole replies in changing company."""

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.decode_curve import ALIKE_BITS, BENDS, MOST_LOG, CurveFacts, DecodeCurve, _together
from pairproxy.core.models import Rates

PRIOR = Rates(prefill=500.0, decode=30.0, beta=0.15)


def served(
    curve: DecodeCurve,
    *,
    beta: float,
    rate: float = 70.0,
    replies: int = 20,
    noise: float = 0.05,
    seed: int = 0,
) -> None:
    """Let an engine that decodes so answer, each reply in up to three sorts of company."""
    random = Random(seed)
    for _ in range(replies):
        company_s: dict[int, float] = {}
        for _ in range(random.randint(1, 3)):
            company = random.randint(1, 4)
            company_s[company] = company_s.get(company, 0.0) + random.uniform(0.5, 3.0)
        alone_s = sum(seconds / (1 + beta * (company - 1)) for company, seconds in company_s.items())
        curve.learn(max(8, round(rate * alone_s * math.exp(random.gauss(0, noise)))), company_s, PRIOR)


def test_nothing_learned_is_the_prior() -> None:
    """Both numbers are the kind's."""
    assert DecodeCurve().rates(PRIOR) == (30.0, 0.15)
    assert DecodeCurve().learn(100, {1: 1.0}, PRIOR) is None


def test_the_first_reply_says_how_fast_and_nothing_of_company() -> None:
    """The rate is what that company of the prior's kind makes of it."""
    curve = DecodeCurve()
    curve.learn(100, {3: 2.0}, PRIOR)
    assert curve.rates(PRIOR) == pytest.approx((50.0 * 1.3, 0.15), rel=0.02)


def test_an_unchanging_company_never_says_how_company_slows() -> None:
    """A thousand replies, each of four at once: the prediction for four is right, and beta the prior's."""
    curve = DecodeCurve()
    random = Random(1)
    for _ in range(1000):
        curve.learn(100, {4: 4.0 * math.exp(random.gauss(0.0, 0.1))}, PRIOR)
    rate, beta = curve.rates(PRIOR)
    assert beta == pytest.approx(0.15, rel=0.05)
    assert rate / (1 + 3 * beta) == pytest.approx(25.0, rel=0.1)


@pytest.mark.parametrize("beta", [0.03, 0.15, 0.4, 0.8, 1.5])
def test_twenty_replies_in_changing_company_tell_the_curve(beta: float) -> None:
    """Whatever the truth, what is predicted for one to four at once is within a fifth of it."""
    for seed in range(10):
        curve = DecodeCurve()
        served(curve, beta=beta, seed=seed)
        rate, found = curve.rates(PRIOR)
        for company in range(1, 5):
            assert rate / (1 + found * (company - 1)) == pytest.approx(
                70 / (1 + beta * (company - 1)), rel=0.2
            )


def test_a_reply_that_saw_hundreds_of_companies_says_what_all_of_them_say() -> None:
    """Neighbouring ones are taken together, which moves what is learned by less than a thousandth."""
    companies, beta = range(1, 513), 0.3
    alone_s = sum(0.05 / (1 + beta * (company - 1)) for company in companies)
    curve = DecodeCurve()
    curve.learn(round(1000 * alone_s), dict.fromkeys(companies, 0.05), replace(PRIOR, beta=beta))
    assert curve.rates(replace(PRIOR, beta=beta))[0] == pytest.approx(1000.0, rel=0.02)
    assert len(dict(_together(dict.fromkeys(companies, 0.05)))) <= 10 * 2**ALIKE_BITS
    for bend in BENDS:
        all_s = sum(0.05 / (1 + bend * (company - 1)) for company in companies)
        few_s = sum(
            seconds / (1 + bend * (company - 1))
            for company, seconds in _together(dict.fromkeys(companies, 0.05))
        )
        assert few_s == pytest.approx(all_s, rel=0.001)


def test_it_follows_an_engine_that_changes() -> None:
    """Half as fast from now on: twenty replies later that is known within an eighth, and beta unharmed."""
    curve = DecodeCurve()
    served(curve, beta=0.4, rate=70.0)
    served(curve, beta=0.4, rate=35.0, seed=1)
    rate, beta = curve.rates(PRIOR)
    assert rate == pytest.approx(35.0, rel=0.12)
    assert beta == pytest.approx(0.4, rel=0.3)


def test_one_odd_reply_changes_little() -> None:
    """It moves the rate by a fifth of a factor of two at most, and says nothing of company."""
    curve = DecodeCurve()
    served(curve, beta=0.15)
    rate, beta = curve.rates(PRIOR)
    curve.learn(100, {2: 1000.0}, PRIOR)
    slower, bent = curve.rates(PRIOR)
    assert slower > 0.8 * rate
    assert bent < 1.6 * beta


def test_a_curve_that_is_not_known_yet_is_not_taken_for_a_slow_machine() -> None:
    """Four at once for the first time, at a beta that nobody expected: no slowness, says the kindest beta.

    When company was seen often enough, a machine that is half as fast as usual is told from it.
    """
    curve = DecodeCurve()
    for _ in range(20):
        curve.learn(140, {1: 2.0}, PRIOR)
    slowness = curve.learn(round(70 * 2 / (1 + 0.4 * 3)), {4: 2.0}, PRIOR)
    assert slowness is not None
    assert slowness > 0.6
    served(curve, beta=0.4, replies=60)
    usual = curve.learn(round(70 * 2 / (1 + 0.4 * 3)), {4: 2.0}, PRIOR)
    half = curve.learn(round(35 * 2 / (1 + 0.4 * 3)), {4: 2.0}, PRIOR)
    assert usual is not None
    assert half is not None
    assert usual > 0.85
    assert half < 0.6


def test_what_was_kept_goes_on_where_it_was() -> None:
    """Rates, doubts and all."""
    curve = DecodeCurve()
    served(curve, beta=0.8)
    again = DecodeCurve(curve.facts())
    assert again.rates(PRIOR) == pytest.approx(curve.rates(PRIOR), rel=0.001)
    served(curve, beta=0.4, seed=2)
    served(again, beta=0.4, seed=2)
    assert again.rates(PRIOR) == pytest.approx(curve.rates(PRIOR), rel=0.01)


@pytest.mark.parametrize(
    "facts",
    [
        CurveFacts(),
        CurveFacts((1.0,) * 5, (1.0,) * 5, (1.0,) * 5, 3),
        CurveFacts((math.nan,) * len(BENDS), (1.0,) * len(BENDS), (1.0,) * len(BENDS), 3),
        CurveFacts((1.0,) * len(BENDS), (1.0,) * len(BENDS), (-1.0,) * len(BENDS), 3),
        CurveFacts((1e9,) * len(BENDS), (1.0,) * len(BENDS), (1.0,) * len(BENDS), 3),
        CurveFacts((1e3,) * len(BENDS), (1.0,) * len(BENDS), (1.0,) * len(BENDS), 3),
        CurveFacts((1.0,) * len(BENDS), (1.0,) * len(BENDS), (1e300,) * len(BENDS), 3),
    ],
)
def test_what_cannot_have_been_kept_is_not_believed(facts: CurveFacts) -> None:
    """It starts from the prior."""
    assert DecodeCurve(facts).rates(PRIOR) == (30.0, 0.15)


@given(
    st.lists(
        st.tuples(
            st.integers(8, 10**6),
            st.dictionaries(st.integers(1, 500), st.floats(1e-3, 1e5), min_size=1, max_size=4),
        ),
        max_size=30,
    )
)
def test_it_never_diverges(replies: list[tuple[int, dict[int, float]]]) -> None:
    """Whatever comes, beta is one of those tried, and the rate between the slowest and the fastest."""
    curve = DecodeCurve()
    for tokens, company_s in replies:
        curve.learn(tokens, company_s, PRIOR)
    rate, beta = curve.rates(PRIOR)
    assert BENDS[0] / 1.3 <= beta <= BENDS[-1] * 1.3
    if replies:
        alone = [tokens / sum(company_s.values()) for tokens, company_s in replies]
        assert min(*alone, math.exp(MOST_LOG)) * 0.5 <= rate <= max(alone) * (1 + beta * 500) * 2


@pytest.mark.parametrize("company", [4, 8])
@pytest.mark.parametrize("beta", [0.03, 0.15, 0.4, 0.8, 1.0])
def test_a_calibration_finds_the_bend_at_once(beta: float, company: int) -> None:
    """One request alone and some at once: what is predicted for that company is right, whatever the prior."""
    curve = DecodeCurve()
    curve.learn(24, {1: 24 / 70}, PRIOR)
    share = 70 / (1 + beta * (company - 1))
    curve.calibrate(16, 16 / share, company)
    rate, found = curve.rates(PRIOR)
    assert rate / (1 + found * (company - 1)) == pytest.approx(share, rel=0.1)
    assert rate == pytest.approx(70, rel=0.01)


def test_a_calibration_that_was_wrong_is_refuted_by_replies() -> None:
    """Somebody used the machine meanwhile: twenty replies later it has left no trace."""
    curve = DecodeCurve()
    curve.learn(24, {1: 24 / 70}, PRIOR)
    curve.calibrate(16, 16 / 2, 4)
    assert curve.rates(PRIOR)[1] == pytest.approx(1.0, rel=0.1), "no more than one after the other"
    served(curve, beta=0.15, replies=20)
    rate, beta = curve.rates(PRIOR)
    assert rate / (1 + 3 * beta) == pytest.approx(70 / 1.45, rel=0.15)


def test_a_calibration_in_company_alone_is_a_first_reply() -> None:
    """Where nothing is known of one request alone, company says nothing of how it slows."""
    curve = DecodeCurve()
    curve.calibrate(50, 1.0, 3)
    assert curve.rates(PRIOR) == pytest.approx((65.0, 0.15), rel=0.02)

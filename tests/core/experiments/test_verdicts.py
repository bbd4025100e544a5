import pytest

from pairproxy.core.experiments.verdicts import Case, Target, judged

SAMPLES = [{"speedup": value} for value in (1.0, 1.2, 0.9, 1.7)]


@pytest.mark.parametrize(
    ("reduction", "value"), [("mean", 1.2), ("min", 0.9), ("max", 1.7), ("p50", 1.1), ("share", 1.0)]
)
def test_samples_become_one_value(reduction: str, value: float) -> None:
    """By the word that the target uses."""
    target = Target("speedup", reduction)  # type: ignore[arg-type]
    assert target.value(SAMPLES) == pytest.approx(value)
    assert target.verdict(value) == "shown"


def test_a_high_percentile_is_one_of_the_samples() -> None:
    """Nine in ten are not above it."""
    assert Target("x", "p90").value([{"x": float(value)} for value in range(101)]) == 90.0


def test_a_bound_is_met_or_missed() -> None:
    """From both sides; the target reads as a sentence."""
    target = Target("share", "max", at_least=0.12, at_most=0.17)
    assert target.text == "max share >= 0.12 and <= 0.17"
    assert [target.verdict(value) for value in (0.11, 0.12, 0.17, 0.18)] == ["MISSED", "met", "met", "MISSED"]


def test_a_missed_target_is_a_row_with_its_value() -> None:
    """And one without samples says that it was not run."""
    targets = (Target("speedup", "min", at_least=0.98, is_hard=True), Target("speedup", "mean"))
    case = Case("E1", "burst", lambda seed, setup: {}, targets, 4, 1)
    low, mean = judged(case, SAMPLES)
    assert (low.verdict, low.value, low.is_hard, low.samples) == ("MISSED", 0.9, True, 4)
    assert (mean.verdict, mean.target) == ("shown", "mean speedup")
    assert {(row.verdict, row.value) for row in judged(case, [])} == {("not run", None)}

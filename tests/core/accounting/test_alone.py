import pytest

from pairproxy.core.accounting.alone import MOST_MODEL_ERROR, T1
from tests.core.accounting.conversation import A


@pytest.mark.parametrize(
    ("alone", "is_credible"),
    [
        (T1(9.0, "measured", A), True),
        (T1(9.0, "modelled", A), True),
        (T1(9.0, "modelled", A, MOST_MODEL_ERROR), True),
        (T1(9.0, "modelled", A, MOST_MODEL_ERROR + 0.01), False),
    ],
)
def test_a_model_that_is_far_off_is_not_believed(alone: T1, is_credible: bool) -> None:
    """What was measured is; what was modelled as far as the model holds for the run as it happened."""
    assert alone.is_credible is is_credible

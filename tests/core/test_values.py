from dataclasses import dataclass

import msgspec

from pairproxy.core.decode_curve import BENDS, CurveFacts
from pairproxy.core.speeds import RateFacts, SpeedFacts
from pairproxy.core.values import spell


@dataclass(frozen=True, slots=True)
class _Line:
    points: object  # as good as what a compiled class has


def test_what_is_read_is_what_the_class_says() -> None:
    """Of the fields that were spelled out."""
    spell(_Line, points=tuple[float, ...])
    assert msgspec.json.decode(b'{"points":[1,2.5]}', type=_Line) == _Line((1.0, 2.5))


def test_what_was_learned_of_a_speed_survives_a_file() -> None:
    """With its curve, and with what was never measured."""
    numbers = (1.5,) * len(BENDS)
    facts = SpeedFacts(RateFacts(2.0, True, 3.0), CurveFacts(numbers, numbers, numbers, 4))
    assert msgspec.json.decode(msgspec.json.encode(facts), type=SpeedFacts) == facts

from dataclasses import dataclass, replace

from pairproxy.core.values import value


@value(frozen=True, slots=True)
class _Point:
    x: int
    y: int = 0


@dataclass(frozen=True, slots=True)
class _Frozen:
    x: int
    y: int = 0


def test_a_value_is_what_a_frozen_dataclass_is() -> None:
    """Equal by what it holds, fit for sets, and replaced as a whole."""
    assert _Point(1) == _Point(1, 0) != _Point(1, 1)
    assert hash(_Point(1)) == hash(_Frozen(1))
    assert {_Point(1), _Point(1), _Point(2)} == {_Point(2), _Point(1)}
    assert replace(_Point(1), y=3) == _Point(1, 3)
    assert repr(_Point(1)) == "_Point(x=1, y=0)"

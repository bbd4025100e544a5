"""How steps wait."""

import pytest

from pairproxy.takeover.machine import Machine, Stopped, until
from pairproxy.takeover.running import Runner


def test_waiting_ends_when_it_is_so() -> None:
    """It is looked at again and again."""
    answers = iter([False, False, True])
    assert until(lambda: next(answers), 10.0, Machine(Runner({})))


def test_waiting_ends_in_time() -> None:
    """What is so at the first look needs no time at all."""
    assert not until(lambda: False, 0.0, Machine(Runner({})))
    assert until(lambda: True, 0.0, Machine(Runner({})))


def test_waiting_ends_when_somebody_asks_for_the_end() -> None:
    """At once, whatever patience there is."""
    with pytest.raises(Stopped):
        until(lambda: False, 600.0, Machine(Runner({}), is_stopped=lambda: True))

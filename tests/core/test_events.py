import dataclasses
from typing import get_args

import pytest

from pairproxy.core.events import Event, TimePassed


def test_every_event_is_stamped_and_frozen() -> None:
    """Its first field is when it happened, and nobody changes what happened."""
    for kind in get_args(Event):
        assert next(iter(dataclasses.fields(kind))).name == "at"
    with pytest.raises(dataclasses.FrozenInstanceError):
        TimePassed(0.0).at = 1.0  # type: ignore[misc]

"""Who gives way in a crowd of strangers: those who make it."""

import pytest

from pairproxy.crowds import gives_way


@pytest.mark.parametrize(
    ("hosts", "gone"),
    [
        pytest.param({1: "a"}, 1, id="the only one"),
        pytest.param({1: "a", 2: "b", 3: "b", 4: "c"}, 2, id="of who has most, not the oldest of all"),
        pytest.param({1: "b", 2: "a", 3: "b", 4: "a"}, 1, id="of equals the oldest"),
    ],
)
def test_the_oldest_of_the_address_that_has_most_gives_way(hosts: dict[int, str], gone: int) -> None:
    """G10, H14: who opens connections without end drives out only its own."""
    assert gives_way(hosts) == gone


def test_nobody_gives_way_where_nobody_is() -> None:
    """An empty crowd is a fault of who asks."""
    with pytest.raises(ValueError, match="empty"):
        gives_way(dict[int, str]())

from pairproxy.core.errors import SlotsTaken
from tests.core.told import Told, ask, refused


def test_a_request_is_here_until_it_is_over() -> None:
    """The id of a request that waits or runs is taken; that of one that ended is free."""
    told = Told()
    for name in ("runs", "waits"):
        told.arrives(ask(name))
        assert refused(told.arrives(ask(name))) == [(name, SlotsTaken)]
    told.finishes("runs")
    assert refused(told.arrives(ask("runs"))) == []

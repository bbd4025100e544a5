from pairproxy.core.arrivals import MOST_ORIGINS, Guests
from pairproxy.core.commands import Refuse
from pairproxy.core.errors import QueueFull
from pairproxy.core.models import NodeId, RequestId
from pairproxy.core.rules import Rules
from tests.core.told import Told, ask, refused


def test_a_full_queue_refuses() -> None:
    """Beyond the limit a request is refused at once, and told when to come again."""
    told = Told(rules=Rules(queue_limit=2))
    for name in ("r1", "r2", "r3"):
        assert refused(told.arrives(ask(name))) == []
    commands = told.arrives(ask("r4"))
    assert refused(commands) == [("r4", QueueFull)]
    assert isinstance(commands[0], Refuse)
    assert commands[0].error.retry_after_s == 4


def test_attempts_are_remembered_of_a_bounded_number_of_peers() -> None:
    """Who was silent longest is forgotten first; a copy that comes late is known for the others."""
    guests = Guests()
    for number in range(MOST_ORIGINS + 1):
        assert guests.is_new(NodeId(f"n{number}"), RequestId("r"), 0.0)
    assert not guests.is_new(NodeId(f"n{MOST_ORIGINS}"), RequestId("r"), 1.0)
    assert guests.is_new(NodeId("n0"), RequestId("r"), 1.0)

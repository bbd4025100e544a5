from pairproxy.core.commands import Refuse
from pairproxy.core.errors import QueueFull
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
